//! SCRAM-SHA-256 (RFC 5802, RFC 7677), as Postgres does it: passwords are not sent, and not kept.
//!
//! A verifier is what Postgres keeps in `pg_authid`: the salt, a key that checks the client's proof, and one that proves to the
//! client that we know it. Who is no user gets a salt too, the same each time, so that names cannot be tried out.

use base64_text::{decode, encode};
use openssl::hash::MessageDigest;
use openssl::memcmp;
use openssl::pkcs5::pbkdf2_hmac;
use openssl::pkey::PKey;
use openssl::rand::rand_bytes;
use openssl::sha::sha256;
use openssl::sign::Signer;

/// The name of the mechanism.
pub(crate) const MECHANISM: &str = "SCRAM-SHA-256";
/// Rounds of a new verifier; RFC 7677 section 4 wants at least 4096.
const ROUNDS: usize = 4096;
/// Rounds that a verifier may have, so that no line of a configuration costs clients minutes.
const ROUNDS_MAX: usize = 10_000_000;
const SALT_OCTETS: usize = 16;
const NONCE_OCTETS: usize = 18;

/// Base64 by OpenSSL, which has it for blocks.
mod base64_text {
    pub(super) fn encode(octets: &[u8]) -> String {
        openssl::base64::encode_block(octets)
    }

    pub(super) fn decode(text: &str) -> Option<Vec<u8>> {
        openssl::base64::decode_block(text).ok()
    }
}

/// What a password is checked with.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Verifier {
    rounds: usize,
    salt: Vec<u8>,
    stored_key: [u8; 32],
    server_key: [u8; 32],
}

impl std::fmt::Debug for Verifier {
    /// Without keys: a log is no place for them.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Verifier").field("rounds", &self.rounds).finish_non_exhaustive()
    }
}

fn hmac(key: &[u8], text: &[u8]) -> Option<[u8; 32]> {
    let key = PKey::hmac(key).ok()?;
    let mut signer = Signer::new(MessageDigest::sha256(), &key).ok()?;
    signer.sign_oneshot_to_vec(text).ok()?.try_into().ok()
}

impl Verifier {
    fn of_password(password: &str, salt: &[u8], rounds: usize) -> Option<Self> {
        let mut salted = [0; 32];
        pbkdf2_hmac(password.as_bytes(), salt, rounds, MessageDigest::sha256(), &mut salted).ok()?;
        let stored_key = sha256(&hmac(&salted, b"Client Key")?);
        Some(Self { rounds, salt: salt.to_vec(), stored_key, server_key: hmac(&salted, b"Server Key")? })
    }

    /// Reads `SCRAM-SHA-256$ROUNDS:SALT$STORED:SERVER`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let rest = text.strip_prefix(MECHANISM)?.strip_prefix('$')?;
        let (head, keys) = rest.split_once('$')?;
        let ((rounds, salt), (stored, server)) = (head.split_once(':')?, keys.split_once(':')?);
        let key = |text: &str| decode(text)?.try_into().ok();
        let rounds = rounds.parse().ok().filter(|rounds| (1..=ROUNDS_MAX).contains(rounds))?;
        let salt = decode(salt).filter(|salt| !salt.is_empty())?;
        Some(Self { rounds, salt, stored_key: key(stored)?, server_key: key(server)? })
    }

    fn text(&self) -> String {
        let Self { rounds, salt, stored_key, server_key } = self;
        format!("{MECHANISM}${rounds}:{}${}:{}", encode(salt), encode(stored_key), encode(server_key))
    }

    /// What somebody who is no user gets, made from a secret of this process: no proof fits it.
    fn of_nobody(name: &str, secret: &[u8]) -> Option<Self> {
        let salt = hmac(secret, name.as_bytes())?[..SALT_OCTETS].to_vec();
        Some(Self { rounds: ROUNDS, salt, stored_key: [0; 32], server_key: [0; 32] })
    }
}

/// What a password is kept as, in the form of Postgres: `SCRAM-SHA-256$ROUNDS:SALT$STORED:SERVER`. `None` when the system has no
/// random numbers.
pub fn scram_verifier(password: &str) -> Option<String> {
    let mut salt = [0; SALT_OCTETS];
    rand_bytes(&mut salt).ok()?;
    Some(Verifier::of_password(password, &salt, ROUNDS)?.text())
}

/// Whether a text is what [`scram_verifier`] makes.
pub fn is_scram_verifier(text: &str) -> bool {
    Verifier::parse(text).is_some()
}

/// Secrets of this process.
#[derive(Debug)]
pub(crate) struct ScramSecret([u8; 32]);

impl ScramSecret {
    pub(crate) fn new() -> Option<Self> {
        let mut secret = [0; 32];
        rand_bytes(&mut secret).ok()?;
        Some(Self(secret))
    }
}

/// A login that has begun.
#[derive(Debug)]
pub(crate) struct ScramExchange {
    verifier: Verifier,
    is_user: bool,
    nonce: String,
    /// The header of channel binding, which comes again.
    header: String,
    /// What both sides have said so far.
    said: String,
}

impl ScramExchange {
    /// Takes the client's first message, and gives the answer. `kept` is the verifier of the user; `None` when there is no such
    /// user.
    pub(crate) fn begin(first: &str, name: &str, kept: Option<&str>, secret: &ScramSecret) -> Option<(Self, String)> {
        let (header, bare) = split_header(first)?;
        // the name is that of the startup message
        let rest = bare.strip_prefix("n=")?.split_once(',')?.1;
        let client_nonce = rest.strip_prefix("r=")?.split(',').next()?;
        if client_nonce.is_empty() || !client_nonce.bytes().all(|octet| octet.is_ascii_graphic()) {
            return None;
        }
        let verifier = kept.and_then(Verifier::parse);
        let is_user = verifier.is_some();
        let verifier = verifier.or_else(|| Verifier::of_nobody(name, &secret.0))?;
        let mut own = [0; NONCE_OCTETS];
        rand_bytes(&mut own).ok()?;
        let nonce = format!("{client_nonce}{}", encode(&own));
        let answer = format!("r={nonce},s={},i={}", encode(&verifier.salt), verifier.rounds);
        let said = format!("{bare},{answer}");
        Some((Self { verifier, is_user, nonce, header: encode(header.as_bytes()), said }, answer))
    }

    /// Takes the client's proof, and gives ours; `None` when it is wrong.
    pub(crate) fn finish(self, last: &str) -> Option<String> {
        let (without_proof, proof) = last.rsplit_once(",p=")?;
        let expected = format!("c={},r={}", self.header, self.nonce);
        let is_begun =
            without_proof.strip_prefix(&expected).is_some_and(|rest| rest.is_empty() || rest.starts_with(','));
        let proof: [u8; 32] = decode(proof)?.try_into().ok()?;
        let said = format!("{},{without_proof}", self.said);
        let signature = hmac(&self.verifier.stored_key, said.as_bytes())?;
        let mut client_key = proof;
        client_key.iter_mut().zip(signature).for_each(|(octet, other)| *octet ^= other);
        let is_right = memcmp::eq(&sha256(&client_key), &self.verifier.stored_key);
        let answer = format!("v={}", encode(&hmac(&self.verifier.server_key, said.as_bytes())?));
        (is_right && is_begun && self.is_user).then_some(answer)
    }
}

/// The header of channel binding, and the rest. Binding is not offered, so a client that wants it has no login.
fn split_header(first: &str) -> Option<(&str, &str)> {
    let mut commas = first.match_indices(',').map(|(at, _)| at);
    let (_, second) = (commas.next()?, commas.next()?);
    let header = &first[..=second];
    let is_without = header.starts_with("n,") || header.starts_with("y,");
    is_without.then(|| (header, &first[second + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 7677 section 3: user "user", password "pencil".
    #[test]
    fn the_example_of_the_standard() {
        let salt = decode("W22ZaJ0SNY7soEsUEjb6gQ==").expect("a salt");
        let verifier = Verifier::of_password("pencil", &salt, 4096).expect("a verifier");
        let nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0".to_owned();
        let answer = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
        let said = format!("n=user,r=rOprNGfwEbeRWgbNEkqO,{answer}");
        let exchange = |verifier: &Verifier| ScramExchange {
            verifier: verifier.clone(),
            is_user: true,
            nonce: nonce.clone(),
            header: "biws".to_owned(),
            said: said.clone(),
        };
        let last = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
        let proof = exchange(&verifier).finish(last).expect("right");
        assert_eq!(proof, "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
        assert!(exchange(&verifier).finish(&last.replace("dHz", "dHa")).is_none());
        assert!(exchange(&verifier).finish(&last.replace("c=biws", "c=eSws")).is_none());
        assert!(exchange(&Verifier::of_password("pencil2", &salt, 4096).expect("one")).finish(last).is_none());
    }

    #[test]
    fn a_verifier_is_text_and_back() {
        let text = scram_verifier("correct horse").expect("a verifier");
        assert_eq!(Verifier::parse(&text).expect("a verifier").text(), text);
        assert!(!text.contains("horse") && text.starts_with("SCRAM-SHA-256$4096:"), "{text}");
        for wrong in ["", "md5abc", "SCRAM-SHA-256$0:AA==$AA==:AA==", &text[..text.len() - 3]] {
            assert!(!is_scram_verifier(wrong), "{wrong}");
        }
    }

    #[test]
    fn nobody_gets_a_salt_and_no_login() {
        let secret = ScramSecret::new().expect("random numbers");
        let begin = || ScramExchange::begin("n,,n=,r=abc", "eve", None, &secret).expect("a beginning");
        let ((first, answer), (_, again)) = (begin(), begin());
        let salt = |answer: &str| answer.split(",s=").nth(1).map(str::to_owned);
        assert_eq!(salt(&answer), salt(&again));
        let last = format!("c=biws,r={},p={}", first.nonce, encode(&[0; 32]));
        assert!(first.finish(&last).is_none());
        assert!(ScramExchange::begin("p=tls-unique,,n=,r=abc", "eve", None, &secret).is_none());
    }
}
