// The precompiled header needs one source file to belong to.
