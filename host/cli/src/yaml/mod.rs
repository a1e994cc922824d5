//! YAML as kubectl reads it, and YAML that every parser reads alike.

mod read;
mod scalar;
mod write;

pub use read::{documents, only};
pub use write::document;

#[cfg(test)]
mod tests;
