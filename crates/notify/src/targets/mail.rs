//! Mail, by SMTP.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;

use crate::action::{Mail, MailSecurity};
use crate::smtp::{SmtpError, SmtpServer};
use crate::target::{Message, SEND_MAX, SendError, Target};
use crate::text;

/// Octets of a line of base64 (RFC 2045 section 6.8).
const LINE_OCTETS: usize = 76;
/// Octets of text in an encoded word of a header, which has 75 at most (RFC 2047 section 2).
const WORD_OCTETS: usize = 42;

/// People who get mail. Each message has a connection of its own: there is one a minute at most by default.
pub(crate) struct MailTarget {
    mail: Mail,
    is_ending: Arc<AtomicBool>,
}

impl MailTarget {
    pub(crate) fn new(mail: Mail) -> Self {
        Self { mail, is_ending: Arc::default() }
    }

    fn hand_over(&self, letter: &str) -> Result<(), SmtpError> {
        let Mail { host, port, security, ca, from, to, login } = &self.mail;
        let (ca, name, is_ending) = (ca.as_deref(), &hello(), &self.is_ending);
        let server = SmtpServer { host, port: *port, name, ca, handshake_max: SEND_MAX, is_ending };
        let mut session = match security {
            MailSecurity::Plain => server.plain()?,
            MailSecurity::Tls => server.tls()?,
            MailSecurity::StartTls => server.starttls()?,
        };
        if let Some((user, password)) = login {
            session.login(user, &password.read()?)?;
        }
        session.send(from, to, letter)
    }

    /// The message (RFC 5322), in lines that end with CR LF.
    fn letter(&self, message: &Message<'_>, now_ms: i64) -> String {
        let date = Timestamp::from_millisecond(now_ms).unwrap_or_default().strftime("%a, %d %b %Y %H:%M:%S +0000");
        let headers = [
            ("From", self.mail.from.clone()),
            ("To", self.mail.to.join(", ")),
            ("Subject", header_text(&text::subject(message))),
            ("Date", date.to_string()),
            // the same when it is sent again
            ("Message-ID", format!("<{}@weir>", message.id())),
            ("MIME-Version", "1.0".to_owned()),
            ("Content-Type", "text/plain; charset=utf-8".to_owned()),
            ("Content-Transfer-Encoding", "base64".to_owned()),
        ];
        let mut letter =
            headers.iter().fold(String::new(), |letter, (name, value)| letter + &format!("{name}: {value}\r\n"));
        let body = STANDARD.encode(text::body(message));
        let mut rest = body.as_str();
        while !rest.is_empty() {
            let (line, behind) = rest.split_at(rest.len().min(LINE_OCTETS));
            letter.push_str("\r\n");
            letter.push_str(line);
            rest = behind;
        }
        letter
    }
}

/// A text as a header may have it: what is not ASCII in encoded words (RFC 2047).
fn header_text(text: &str) -> String {
    if text.is_ascii() {
        return text.to_owned();
    }
    let (mut words, mut rest) = (Vec::new(), text);
    while !rest.is_empty() {
        let (word, behind) = rest.split_at(rest.floor_char_boundary(WORD_OCTETS));
        words.push(format!("=?utf-8?B?{}?=", STANDARD.encode(word)));
        rest = behind;
    }
    words.join("\r\n ")
}

/// How we are called: by our name, or as an address that is right for everybody (RFC 5321 section 4.1.3).
fn hello() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim();
    let is_fit = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
    if name.is_empty() || !name.chars().all(is_fit) { "[127.0.0.1]".to_owned() } else { name.to_owned() }
}

impl Target for MailTarget {
    fn takes_several(&self) -> bool {
        true
    }

    fn ends_with(&mut self, is_ending: &Arc<AtomicBool>) {
        self.is_ending = Arc::clone(is_ending);
    }

    fn send(&mut self, message: &Message<'_>, now_ms: i64) -> Result<(), SendError> {
        let letter = self.letter(message, now_ms);
        self.hand_over(&letter).map_err(|error| match error {
            // what is refused of the mail itself; a login, a sender or a server that is set up otherwise can be mended
            SmtpError::Reply { command: "RCPT" | "DATA" | "the message", code: 500.., .. } => {
                SendError::Refused(error.to_string())
            }
            SmtpError::Unanswered(_) => SendError::Unknown(error.to_string()),
            error => SendError::again(error.to_string()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first word is that of Python's email.header, but for the case of the B.
    #[test]
    fn headers_are_ascii() {
        assert_eq!(header_text("a scan"), "a scan");
        assert_eq!(header_text("Überfall"), "=?utf-8?B?w5xiZXJmYWxs?=");
        let long = header_text(&"ü".repeat(50));
        assert!(long.lines().all(|line| line.trim().len() <= 75), "{long}");
        let decoded: String = long
            .lines()
            .map(|line| {
                let word = line.trim().trim_start_matches("=?utf-8?B?").trim_end_matches("?=");
                String::from_utf8(STANDARD.decode(word).expect("base64")).expect("UTF-8")
            })
            .collect();
        assert_eq!(decoded, "ü".repeat(50));
    }
}
