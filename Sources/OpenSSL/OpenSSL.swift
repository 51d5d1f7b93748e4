// The module OpenSSL.
