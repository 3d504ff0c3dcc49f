//! An explanation as a person reads it.
