// OpenSSL macros that Swift cannot import, as functions.
#ifndef CSHIMS_H
#define CSHIMS_H
#include <openssl/ssl.h>

static inline long cshims_ssl_ctx_set_min_proto_version(SSL_CTX *context, int version) {
    return SSL_CTX_set_min_proto_version(context, version);
}

#endif
