// The module HTTP2.
