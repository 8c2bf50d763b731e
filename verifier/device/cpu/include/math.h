// In the prelude already.
