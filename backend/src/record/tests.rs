//! Tests of recording.
