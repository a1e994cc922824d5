//! Who may do what: as whom plugins write and read, what the API server says to it, and the roles that grant it.

mod account;
pub mod policies;
pub mod rbac;
pub mod review;

pub use account::{Account, AccountError, Accounts, AskOwn, signer};
