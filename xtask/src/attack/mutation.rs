//! Small damages to bytes that are sound.

use fastrand::Rng;

/// Bytes that mean something to a parser.
const TELLING: &[u8] = b"\0\t\r\n \"#%,-./0:;<=>?@[\\]{|}\x7f\x80\xc0\xff";

/// Damages a copy in one to four places.
pub(super) fn of(sound: &[u8], random: &mut Rng) -> Vec<u8> {
    let mut bytes = sound.to_vec();
    for _ in 0..random.u32(1..=4) {
        if bytes.is_empty() {
            break;
        }
        let at = random.usize(..bytes.len());
        let telling = TELLING[random.usize(..TELLING.len())];
        match random.u8(..6) {
            0 => bytes[at] = telling,
            1 => bytes[at] ^= 1 << random.u8(..8),
            2 => bytes.insert(at, telling),
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
