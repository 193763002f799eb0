//! A model of a vLLM engine, in virtual time.
