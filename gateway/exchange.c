#include "gateway/exchange.h"

const char *exchange_header(const struct exchange *exchange, const char *name)
{
    return MHD_lookup_connection_value(exchange->connection, MHD_HEADER_KIND, name);
}

void exchange_refuse(struct exchange *exchange, unsigned status, const char *kind,
                     const char *title, const char *detail)
{
    answer_refuse(
        &exchange->answer,
        &(struct problem){.status = status, .kind = kind, .title = title, .detail = detail},
        exchange->id);
}

void exchange_refuse_store(struct exchange *exchange, const struct cv_error *error)
{
    if (error) {
        cv_log_error(error, exchange->operation->name);
    }
    exchange->answer.retry_after_s = 1;
    exchange_refuse(exchange, 503, "unavailable", "The store is away", "try again in a moment");
}
