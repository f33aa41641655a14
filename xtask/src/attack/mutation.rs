//! Random mutations of valid bytes.

use fastrand::Rng;

/// Bytes that have a meaning for parsers.
const SYNTAX: &[u8] = b"\0\t\r\n \"#%,-./0:;<=>?@[\\]{|}\x7f\x80\xc0\xff";

/// Returns a copy with one to four mutations.
pub(super) fn of(valid: &[u8], random: &mut Rng) -> Vec<u8> {
    let mut bytes = valid.to_vec();
    for _ in 0..random.u32(1..=4) {
        if bytes.is_empty() {
            break;
        }
        let at = random.usize(..bytes.len());
        let byte = SYNTAX[random.usize(..SYNTAX.len())];
        match random.u8(..6) {
            0 => bytes[at] = byte,
            1 => bytes[at] ^= 1 << random.u8(..8),
            2 => bytes.insert(at, byte),
            3 => {
                bytes.remove(at);
            }
            4 => {
                let end = (at + random.usize(1..40)).min(bytes.len());
                let piece = bytes[at..end].to_vec();
                let to = random.usize(..=bytes.len());
                bytes.splice(to..to, piece);
            }
            _ => bytes.truncate(at),
        }
    }
    bytes
}
