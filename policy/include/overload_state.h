/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* auto's memory of one listening socket: what its SYNs have met. */
#ifndef TG_OVERLOAD_STATE_H
#define TG_OVERLOAD_STATE_H

#include "types.h"

/* A socket knows how long so many of its last overloads were: see overload.h. */
#define TG_OVERLOAD_KNOWN 8

/* What the pace brought the server, by the mean of its queue. */
enum tg_supply {
	TG_FITS,
	TG_SATED,   /* the short queue was at its limit */
	TG_STARVED, /* hardly anybody was in it */
};

/* Who waits for a listening socket's application, by the daemon: see overload_inside.h. */
struct tg_inside {
	__u64 at_ns;      /* when it counted them, by the monotonic clock; 0: never */
	__u32 unanswered; /* accepted, their clients have said something, and heard nothing yet */
	/* Of them those who said something last or have closed, a while ago: */
	__u32 unread; /* the application has not read it */
	__u32 gone;   /* it has not closed */
	/* Besides: */
	__u32 queued; /* in both queues */
	__u32 let_in; /* as tg_overload had it */
	__u32 padding;
};

/* How many who wait are enough for a server that is behind: see overload_enough.h. */
struct tg_enough {
	__u64 since_ns;    /* when the number at hand began to settle, or to be tried; 0: neither */
	__u64 waiting;     /* so many waited then */
	__u64 did_x256;    /* connections that it answered with more, a second; 0: none was tried */
	__u64 raised_x256; /* those it answered with half as many, before the trial at hand */
	__u32 let_in;      /* as of tg_overload, then */
	__u32 least;       /* fewer were too few, not long ago */
	__u32 tries;       /* since they were */
	__u32 is_tried;    /* it has settled */
};

/* What the SYNs of one listening socket have met: see overload.h. All zero: none has come. */
struct tg_overload {
	__u64 window_ns; /* when the window at hand began */
	__u64 since_ns; /* when more new clients began to come than the server takes; 0: they do not
	                 */
	__u64 excess_ns;     /* when the last such window ended */
	__u64 dropped_ns;    /* when the last window with drops ended */
	__u64 half_full_ns;  /* when a SYN last found half of the places in use taken */
	__u64 fresh_x256;    /* new clients, a second */
	__u64 kept_out_x256; /* SYNs beyond their network's share, a second */
	__u64 peak_x256;     /* the most of both in this overload */
	__u64 drain_x256;    /* connections that the server takes, a second */
	__u64 silent_x256;   /* SYNs dropped in silence, or to come again soon, a second: as many
	                      * clients wait */
	__u64 small_x16;     /* that it ends before too many wait, by what is known; of 2^16 */
	__u64 syn_ns;        /* what a SYN costs its part of the host while so many come */
	__u64 worth;         /* clients for whom it would pay to wait, were there an overload */
	__u64 may_wait;      /* clients that should, beyond a burst */
	__u64 in_time;       /* clients that may wait in a burst, and when it is over */
	__u64 calm_ms;       /* between the last overloads, a mean; 0: not known */
	__u64 bound;         /* so many may wait for accept() at any time; 0: not known */
	__u64 taken_x256;    /* connections that the server took in the window before, a second */
	__u32 closing_tick;  /* when some processor began to close the window; 0: none does */
	__u32 proved;        /* ACKs of this window that brought a cookie, let in or not */
	/* Of this window's SYNs: */
	__u64 seen;          /* those that auto watches */
	__u64 repeated;      /* those that found no room, and whose request stands */
	__u64 fresh;         /* those of clients that were not waiting */
	__u64 dropped;       /* those that found no room */
	__u64 fresh_dropped; /* those that are both */
	__u64 kept_out;      /* those beyond their network's share, and not among those seen */
	__u64 entered;       /* those that found room, and not none when their ACK came */
	__u64 silent;        /* those dropped in silence */
	__u64 hastened;      /* those told to come again soon */
	__u64 steady;        /* those dropped in silence whom nothing makes come sooner */
	__u64 connected;     /* those that wait connected, by a SYN cookie */
	__u64 cookies; /* those whose room is a SYN cookie: the kernel's, or ours in its place */
	/* Besides: */
	__u64 returned;      /* SYN cookies of ours that came back in this window, let in or told */
	__u64 on_return;     /* those of the window before that had not come back when it ended */
	__u64 apart_ns;      /* between two that the server takes */
	__u64 step_ns;       /* between two that are let in, now */
	__u64 next_ns;       /* when the next is to be let in */
	__u64 waiting_sum;   /* those that wait for accept(), summed over the SYNs of this window */
	__u64 probed_ns;     /* when the client was let in whose ACK is waited for */
	__u64 round_trip_ns; /* the mean of the last that were seen */
	__u64 counted_ns;    /* when the daemon last counted who waits; 0: it is not known */
	__u64 waiting;       /* so many did then, in the queues and inside the application */
	__u64 answered_x256; /* connections that it answers, a second */
	struct tg_enough enough; /* and how many who wait it needs for that */
	__u32 may_be_waiting;    /* so many may */
	__u32 let_in;            /* SYNs that found room, modulo 2^32 */
	__u32 counted_let_in;    /* the same, when they were counted */
	__u32 behind; /* counts that showed it to be, less those that did not, up to as many as tell
	               */
	__u32 probe_isn;    /* its initial sequence number; 0: none is waited for */
	__u32 on_their_way; /* let in, and not in the listen queue yet, at what the server takes */
	__u32 queued;       /* in both queues when it began */
	__u32 listened;     /* in the listen queue then */
	__u32 exempted;     /* of exempt networks that found room in it, and are not watched */
	__u32 places;       /* of the listen queue, for an overload whose server is known */
	__u32 few_places;   /* as many as it takes while this crowd is there */
	__u32 half_open;    /* the fewest half-open connections in this window */
	__u32 stuck;        /* in the one before: no ACK is on its way to these */
	__u16 members;      /* of its SO_REUSEPORT group; 0: it is in none */
	__u8 is_persistent;
	__u8 was_quiet;  /* hardly a new client came in the window before */
	__u8 is_flooded; /* of the SYN cookies hardly any came back then: they are a flood's */
	__u8 ends_soon;  /* within 2 s, more likely than not */
	__u8 supply;     /* enum tg_supply: where clients are away, of the window before */
	__u8 was_long;   /* the overload at hand, or the last, if it has not been calm since */
	__u32 ended;     /* overloads that have ended */
	/* How long the last of them were, in ms; 0: there was none. */
	__u32 lasted_ms[TG_OVERLOAD_KNOWN];
};

#endif
