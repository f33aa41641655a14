//! The keys of a form: what Ctrl with a letter does in it.
//!
//! The crate that shows the forms takes Ctrl with a letter for the letter, unless it knows the key. So a form reads a pseudo-terminal, and a thread
//! copies the keys of the real one to it: those of readline as keys that the crate knows, and others not at all.

use rustix::{
    fs::{Mode, OFlags},
    io::fcntl_dupfd_cloexec,
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{OptionalActions, QueueSelector, tcflush, tcgetattr, tcsetattr},
};
use std::{
    fs::File,
    io::{self, Read, Write},
    os::fd::OwnedFd,
    process::exit,
    thread,
};

/// More letters than most answers have. Deleting at the edge does nothing. What the form has to read at once must be less than 1024 bytes: the rest
/// would wait there for the next key.
const WHOLE_LINE: usize = 200;
const PASTE_BEGINS: &[u8] = b"\x1b[200~";
const PASTE_ENDS: &[u8] = b"\x1b[201~";

/// Makes standard input a pseudo-terminal with the keys of the terminal that it is now, which becomes raw.
pub(super) fn read_through_filter() -> io::Result<()> {
    let real = fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
    let keyboard = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
    grantpt(&keyboard)?;
    unlockpt(&keyboard)?;
    let name = ptsname(&keyboard, Vec::new())?;
    let filtered = rustix::fs::open(name, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty())?;
    make_raw(&filtered)?;
    make_raw(&real)?;
    // Keys that were pressed before the form was shown must not answer it: the user has not read it.
    tcflush(&real, QueueSelector::IFlush)?;
    rustix::stdio::dup2_stdin(&filtered)?;
    thread::Builder::new().spawn(move || {
        let _ = copy(File::from(real), File::from(keyboard));
        // The terminal is gone, so nobody can answer. SIGHUP ends a command that it controls; in another one the form would read the end of its keys
        // again and again.
        exit(1);
    })?;
    Ok(())
}

/// Raw mode for what is typed. What is written between the fields of a form keeps its line breaks.
fn make_raw(terminal: &OwnedFd) -> io::Result<()> {
    let mut settings = tcgetattr(terminal)?;
    let output = settings.output_modes;
    settings.make_raw();
    settings.output_modes = output;
    Ok(tcsetattr(terminal, OptionalActions::Now, &settings)?)
}

fn copy(mut from: File, mut to: File) -> io::Result<()> {
    let mut filter = KeyFilter::default();
    let mut bytes = [0; 1024];
    loop {
        let length = from.read(&mut bytes)?;
        if length == 0 {
            return Ok(());
        }
        to.write_all(&filter.keys(&bytes[..length]))?;
    }
}

#[derive(Default)]
struct KeyFilter {
    /// The latest bytes, as many as a mark of pasted text has.
    latest: Vec<u8>,
    is_pasting: bool,
}

impl KeyFilter {
    /// The keys for the form. Pasted text is left as it is.
    fn keys(&mut self, typed: &[u8]) -> Vec<u8> {
        let mut keys = Vec::new();
        for byte in typed {
            match byte {
                _ if self.is_pasting => keys.push(*byte),
                byte => keys.extend(key(*byte)),
            }
            if self.latest.len() == PASTE_BEGINS.len() {
                self.latest.remove(0);
            }
            self.latest.push(*byte);
            match self.latest.as_slice() {
                PASTE_BEGINS => self.is_pasting = true,
                PASTE_ENDS => self.is_pasting = false,
                _ => {}
            }
        }
        keys
    }
}

fn key(byte: u8) -> Vec<u8> {
    const fn ctrl(letter: u8) -> u8 {
        letter & 0x1f
    }
    const HOME: &[u8] = b"\x1b[H";
    const END: &[u8] = b"\x1b[F";
    const DELETE: &[u8] = b"\x1b[3~";
    const BACKSPACE: &[u8] = b"\x7f";
    const ESC: u8 = 0x1b;
    const ENTER: u8 = ctrl(b'm');
    const TAB: u8 = ctrl(b'i');
    // The form itself knows the keys that interrupt, leave and submit it, and those that go up and down.
    const KNOWN: [u8; 9] = [
        ESC,
        ENTER,
        TAB,
        ctrl(b'c'),
        ctrl(b'd'),
        ctrl(b'g'),
        ctrl(b'j'),
        ctrl(b'n'),
        ctrl(b'p'),
    ];
    match byte {
        b' '.. => vec![byte],
        byte if KNOWN.contains(&byte) => vec![byte],
        byte if byte == ctrl(b'a') => HOME.to_vec(),
        byte if byte == ctrl(b'e') => END.to_vec(),
        byte if byte == ctrl(b'h') => BACKSPACE.to_vec(),
        byte if byte == ctrl(b'u') => BACKSPACE.repeat(WHOLE_LINE),
        byte if byte == ctrl(b'k') => DELETE.repeat(WHOLE_LINE),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_control_key_becomes_a_letter() {
        for byte in 0..b' ' {
            let keys = KeyFilter::default().keys(&[byte]);
            let is_letter = keys.len() == 1 && keys[0].is_ascii_graphic();
            assert!(!is_letter, "{byte}");
        }
        assert_eq!(KeyFilter::default().keys(b"a\x17\x01b"), b"a\x1b[Hb");
        assert_eq!(
            KeyFilter::default().keys("ß\u{1b}[A\r".as_bytes()),
            "ß\u{1b}[A\r".as_bytes()
        );
    }

    #[test]
    fn pasted_text_is_left_as_it_is() {
        let typed = b"\x17\x1b[200~a\x17b\x1b[201~\x17c";
        let mut filter = KeyFilter::default();
        let keys: Vec<u8> = typed.iter().flat_map(|byte| filter.keys(&[*byte])).collect();
        assert_eq!(keys, b"\x1b[200~a\x17b\x1b[201~c");
    }
}
