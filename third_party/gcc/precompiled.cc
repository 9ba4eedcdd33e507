// Compiled with an error where gcc leaves the precompiled header out, as it does without a word where
// a source's options differ from the header's (gcc.bzl).
