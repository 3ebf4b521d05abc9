/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * auto: who speaks first behind a handshake, the client or the server, as a guarded port's
 * connections have shown.
 *
 * A client that says something at once repeats it until it is acknowledged, and so comes in where
 * its ACK found the listen queue full. One that waits for a greeting (SMTP, MySQL, FTP) says
 * nothing more: where nobody keeps a request for it, as behind a SYN cookie, it waits until it
 * gives up. Until it has been seen that clients speak first they are taken for such.
 */
#ifndef TG_SPEAKS_H
#define TG_SPEAKS_H

#include "types.h"

/* So many must have been seen. */
#define TG_SPEAKS_LEAST 8
/* One in so many may have waited for the server: a port is not of two protocols. */
#define TG_SPEAKS_SHARE 32
/* When so many have been seen they count half as much. */
#define TG_SPEAKS_MOST 1024

/* How often a client's first data came before the server said anything, and behind it. */
struct tg_speaks {
	__u32 clients;
	__u32 servers;
};

/*
 * A client's first data of a connection has come. answers: it acknowledges something that the
 * server has said; what only stands beside it says nothing (HTTP/2's servers send their settings
 * unasked, and its clients do not wait for them).
 */
TG_INLINE void tg_speaks_see(struct tg_speaks *s, int answers)
{
	if (s->clients + s->servers >= TG_SPEAKS_MOST) {
		s->clients /= 2;
		s->servers /= 2;
	}
	s->clients += !answers;
	s->servers += !!answers;
}

/* Do its clients speak first? */
TG_INLINE int tg_speaks_first(const struct tg_speaks *s)
{
	return s->clients >= TG_SPEAKS_LEAST && (__u64)s->servers * TG_SPEAKS_SHARE <= s->clients;
}

#endif
