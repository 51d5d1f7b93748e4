// OpenSSL macros and variadic functions that Swift cannot import, as functions.
#ifndef CSHIMS_H
#define CSHIMS_H
#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>

static inline long cshims_ssl_ctx_set_min_proto_version(SSL_CTX *context, int version) {
    return SSL_CTX_set_min_proto_version(context, version);
}

static inline long cshims_ssl_ctx_set_mode(SSL_CTX *context, long mode) {
    return SSL_CTX_set_mode(context, mode);
}

static inline void cshims_ssl_ctx_set_read_ahead(SSL_CTX *context, int enabled) {
    SSL_CTX_set_read_ahead(context, enabled);
}

static inline long cshims_ssl_ctx_set_session_cache_mode(SSL_CTX *context, long mode) {
    return SSL_CTX_set_session_cache_mode(context, mode);
}

static inline long cshims_ssl_set_tlsext_host_name(SSL *ssl, const char *name) {
    return SSL_set_tlsext_host_name(ssl, name);
}

static inline long cshims_bio_get_mem_data(BIO *bio, char **data) {
    return BIO_get_mem_data(bio, data);
}

static inline EVP_PKEY *cshims_evp_ec_gen(const char *curve) {
    return EVP_EC_gen(curve);
}

static inline EVP_PKEY *cshims_evp_rsa_gen(unsigned int bits) {
    return EVP_RSA_gen(bits);
}

#endif
