//! The contract's versions: `bindgen!` and the conversion between WIT and core's types, one folder a version. Generated
//! types do not leave their folder.

pub(crate) mod v0_1;
