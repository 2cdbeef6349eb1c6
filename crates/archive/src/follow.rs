//! Following an archive: every delivery after a position, once, in order.
//!
//! A [`Follower`] reads deliveries from wherever they are: in the process of the writer from memory, else from the tail
//! frame by frame, and what is sealed from segments, where a section says which delivery each row came in. It moves
//! from one to the other by positions alone, so sealing, merging, restarts and crashes meanwhile change nothing. Nobody
//! waits for a follower: one that is slow reads older files.
//!
//! What cannot be given is said: flows that expired or were lost before they were read are a [`FollowEvent::Gap`], and
//! deliveries that a crash of the machine took away after they were read are a [`FollowEvent::Rewound`].
//!
//! Only flows are given. Rows of the other tables are added up when they are sealed, so which delivery they came in is
//! not known any more. Within a delivery that was sealed, flows are in the order of `received`, and those of one
//! millisecond in any order: keeping the order in which they came would take two octets a row.

mod event;
mod follower;
pub(crate) mod local;
mod retry;
mod tail_cursor;
mod view;
mod window;

pub use event::{Behind, FollowEvent, FollowOptions, FollowedDelivery};
pub use follower::Follower;
pub use retry::FollowRetry;
