//! What the programs around kube-runtime share.

pub mod tiny;
