//! Files of other programs, read as flows.
