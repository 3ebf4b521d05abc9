/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What userspace and the programs share: the one source of these types. The
 * loader's Rust types are generated from this file.
 */
#ifndef TG_LAYOUT_H
#define TG_LAYOUT_H

#include "../../policy/include/accepts.h"
#include "../../policy/include/bucket.h"
#include "../../policy/include/cookie.h"
#include "../../policy/include/held.h"
#include "../../policy/include/listener.h"
#include "../../policy/include/notice.h"
#include "../../policy/include/overload_state.h"
#include "../../policy/include/police.h"
#include "../../policy/include/shed.h"
#include "../../policy/include/speaks.h"
#include "../../policy/include/time_wait.h"
#include "../../policy/include/verdict.h"
#include "../../policy/include/waiting.h"

/*
 * Changes whenever the type of a map that outlives the daemon does: a restarted one adopts no
 * other. Such types stand below; in policy/include, as tg_share; and in the stages that keep them,
 * as tg_answered, tg_unsettled and tg_remembered. A test beside GUARD_MAPS in programs.rs asks for
 * another version where a size has changed; what moves within a type it cannot see.
 */
#define TG_LAYOUT_VERSION 36

#define TG_GUARDS 64
/* Counter slots: a guard's own first, then one for each listening socket. */
#define TG_SLOTS 1024
/* Guards on one port: several addresses, and the wildcard last. */
#define TG_GUARDS_A_PORT 8
/* Networks of preferred proxies, of all guards and both configurations. */
#define TG_PREFERRED 4096
/* Networks that are policed or exempt, likewise. */
#define TG_LIMITS 2048

/*
 * Where the SYN stage is decided. The ACK stage always stands at the IP entry.
 * An interface without a program at its driver decides at the IP entry.
 */
enum tg_hook {
	TG_HOOK_AUTO,   /* the loader chooses for each interface */
	TG_HOOK_DRIVER, /* XDP */
	TG_HOOK_IP,     /* tc ingress */
	TG_HOOK_TCP,    /* netfilter local-in, just before TCP */
};

/* One [[listener]] or [[path]] of the configuration. */
struct tg_guard {
	struct tg_shed_rules shed;
	struct tg_rules rules;
	__u32 addr[4];   /* network byte order; IPv4 in word 0 */
	__u32 addr_kind; /* 0: every address of the port; 4; 6 */
	__u32 hook;      /* enum tg_hook */
	__u32 next;      /* index + 1 of the port's next guard; 0 ends */
	__u32 is_path;   /* forwarded: shed without a listening socket to look at */
	struct tg_tw_rules time_wait;
	__u32 has_limits; /* networks of clients are policed or exempt */
	/* Its rules may give cookies, or those before did, which may still come back. */
	__u32 takes_cookies;
	__u32 claims_index; /* of tg_claims: that of the port's first guard */
};

/* A whole configuration. Two stand in the map; tg_control.active names one. */
struct tg_config {
	__u8 port_guard[65536]; /* index + 1 of a port's first guard; 0: not guarded */
	struct tg_guard guards[TG_GUARDS];
	struct tg_cookie_keys keys;
	struct tg_key shed_key;
};

struct tg_control {
	__u32 layout_version;
	__u32 active;          /* which configuration is in force: 0 or 1 */
	__u64 clock_offset_ns; /* wall clock minus monotonic: hosts share the epoch of cookies */
	__u32 cookies_work;    /* this kernel lets our cookies in (Linux 6.9) */
	__u32 held_blocks;     /* of the table of pairs that are held in TIME-WAIT */
	struct tg_key held_key;
	__u64 netns_cookie;   /* sockets of other network namespaces are not ours */
	__u32 rfc1337;        /* the kernel's TIME-WAIT ignores RST: the daemon ends it */
	__u32 tick_ns;        /* of the kernel's; 0: not known */
	__u64 ticks_began_ns; /* monotonic, modulo 2^64: when their count was 0 */
	__u32 knows_local;    /* what local_routes does not have is not this host's */
	__u32 cookies_ipv4;   /* by IPv4 alone: IPv6 is a module of its (CONFIG_IPV6=m) */
};

/*
 * The private option by which an application says how connections end, at level
 * SOL_TCP, far from Linux's own: "tg". Its value is an int: an enum tg_fin_rule,
 * or TG_AS_CONFIGURED.
 */
#define TG_SOCKET_CLOSE 0x7467
#define TG_AS_CONFIGURED (-1)

/* What an application has said of one socket; connections have it from their listening socket. */
struct tg_said {
	__u32 fin; /* enum tg_fin_rule + 1; 0: nothing */
	__u32 padding;
};

/* A network, as an LPM trie has its keys. */
struct tg_network {
	__u32 prefix_bits; /* TG_NETWORK_OWNER_BITS, and those of the network */
	__u32 owner;       /* tg_destination_owner(), tg_client_owner() or tg_local_owner() */
	__u32 addr[4];     /* network byte order; IPv4 in word 0 */
};

#define TG_NETWORK_OWNER_BITS 32
/* Destinations of both configurations. */
#define TG_DESTINATIONS 1024

/* Whose a network is that this host connects to; its value is tg_tw_rules. */
TG_INLINE __u32 tg_destination_owner(__u32 config, __u32 is_ipv6)
{
	return config << 8 | !!is_ipv6;
}

/* By which an address is looked up: what it matches is the longest prefix of its owner's. */
TG_INLINE struct tg_network tg_network_key(const __u32 *addr, __u32 is_ipv6, __u32 owner)
{
	struct tg_network key = {
		.prefix_bits = TG_NETWORK_OWNER_BITS + (is_ipv6 ? 128 : 32),
		.owner = owner,
		.addr = {addr[0], addr[1], addr[2], addr[3]},
	};

	return key;
}

/* Addresses of this host's own, and networks that are routed to it. */
#define TG_LOCAL_ROUTES 65536

/* Whose these are. */
TG_INLINE __u32 tg_local_owner(__u32 is_ipv6)
{
	return !!is_ipv6;
}

/* What one connection's socket knows of the end of it. */
struct tg_agreement {
	__u32 us;      /* enum tg_tw_holder: which end this socket is */
	__u32 offered; /* whom our SYN named */
	__u32 holder;  /* what was agreed */
	__u32 writing; /* our segments still carry the value */
	__u32 close_swap;
	__u32 is_met;            /* what answered came by the IP entry as this socket has it */
	__u32 closing;           /* counted in closing_ports */
	__u32 fin_seq;           /* our FIN's sequence number, once this end closes */
	struct tg_tw_value peer; /* what the other end's SYN said, where both opened at once */
};

/* A socket whose TIME_WAIT is another's: by its cookie, so that no later one is meant. */
struct tg_leaving {
	__u64 socket_cookie;
	__u32 fin_seq; /* of its agreement, which TIME_WAIT does not have */
	__u32 bound_ifindex;
};

/*
 * Of a SYN with our option, to a guard that would hold: what its SYN/ACKs have said of that. (Of a
 * guard that is adopted, and was begun before MET was told apart, TOLD may be MET.)
 */
enum tg_tw_syn {
	TG_TW_SYN_TOLD = 1, /* that we hold: the client counts on it from then on */
	TG_TW_SYN_UNMET,    /* nothing: the IP entry does not meet it as its socket has it */
	TG_TW_SYN_MET,      /* nothing yet */
	TG_TW_SYN_NO_ROOM,  /* nothing: the table had no room */
};

/* What happened to the ends of connections, counted. */
enum tg_tw_count {
	TG_TW_AGREED_HERE,  /* agreed that this host holds */
	TG_TW_AGREED_THERE, /* agreed that the other holds */
	TG_TW_UNSPOKEN,     /* we named an end, and the other said nothing, or named us in vain */
	TG_TW_REFUSED,      /* the server's choice was not acceptable: RST */
	TG_TW_HELD,         /* closed second, and held in our table */
	TG_TW_SWAPPED,      /* close_swap: RST sent, and held in our table */
	TG_TW_LEFT,         /* closed first, and went to CLOSED: the other end holds */
	TG_TW_LATE,         /* the same, by the daemon, since the socket was busy */
	TG_TW_NO_ROOM,      /* the table had none: not offered, not promised, or not swapped */
	TG_TW_FORGOTTEN,    /* a pair gave its place before its time was over */
	TG_TW_REOPENED,     /* a SYN on a held pair that was safe */
	TG_TW_BLOCKED,      /* a SYN or RST on a held pair that was not */
	TG_TW_COUNTS,
};

/* Whose a network of clients is, preferred, policed or exempt: a guard's. */
TG_INLINE __u32 tg_client_owner(__u32 config, __u32 guard, __u32 is_ipv6)
{
	return config << 16 | !!is_ipv6 << 8 | guard;
}

/* `tidegate agent`, on a client's host: see notice.bpf.c. None of its maps outlives it. */
#define TG_OBEYED 1024
#define TG_AVOIDED 8192
/*
 * What connect() says, EHOSTDOWN: an address that answers with ECONNREFUSED or ETIMEDOUT never has
 * it, and programs take it for one that does not work now. docs/notices.md says which.
 */
#define TG_AVOIDED_ERRNO 112

struct tg_agent {
	__u64 netns_cookie; /* sockets of other network namespaces are not ours */
};

/* A destination whose notices are obeyed. */
struct tg_obeyed {
	__u32 longest_ms; /* and up to half as long again */
};

/* Whose a network is whose notices are obeyed: port 0 is every one. */
TG_INLINE __u32 tg_obeyed_owner(__u32 port, __u32 is_ipv6)
{
	return !!is_ipv6 << 16 | (port & 0xffff);
}

/* A destination that has said when to come back. */
struct tg_avoided {
	__u64 until_ns;
	__u64 failed; /* connect()s */
};

/* What the agent counts: RSTs by enum tg_notice_verdict, and behind those: */
enum tg_agent_count {
	TG_CONNECTS_FAILED = TG_NOTICE_TIMED + 1,
	TG_AGENT_COUNTS,
};

/* reserv's own count of one port: see claims.h. */
struct tg_claims {
	__u64 made;    /* SYNs let through, and those that are being decided */
	__u64 passed;  /* SYNs let through */
	__u64 settled; /* of them, those that TCP has seen, and those that are forgotten */
	__u64 noted;   /* what passed was at noted_ns */
	__u64 noted_ns;
	__u64 forgotten_ns; /* when some were last forgotten */
	__u64 looked_ns;    /* when the notes of all processors were last looked at */
};

/* Which counters a decision is counted in: a listening socket's, under one guard. */
struct tg_slot_key {
	__u64 socket_cookie;
	__u32 guard;
	__u32 padding;
};

/* A refusal that is told of. */
struct tg_refusal {
	struct tg_tuple tuple; /* from the client's side */
	struct tg_decision decision;
	__u32 guard;
};

/* What the listener iterator tells of one listening socket. */
struct tg_listener_row {
	__u64 socket_cookie;
	__u64 inode;   /* of its descriptors, as /proc has them; 0: it has none */
	__u32 addr[4]; /* network byte order; IPv4 in word 0 */
	__u32 is_ipv6;
	__u32 port;
	__u32 listen_len;
	__u32 listen_max;
	__u32 syn_len;
	__u32 syn_young;
	__u32 kernel_drops; /* sk_drops: queue drops that the kernel counted on this socket */
	__u32 ipv6_only;
	__u32 chosen; /* by a program of the application's among its SO_REUSEPORT group */
	__u32 bound_ifindex;
};

/* What the iterator of connections tells of one that waits inside the application. */
struct tg_inside_row {
	__u32 guard;
	__u32 is_unread;
	__u32 is_gone;
};

/* A listening socket whose backlog we changed. */
struct tg_resized {
	__u32 before; /* the application's own */
	__u32 ours;   /* all ones while it is being changed */
};

/* What the request iterator tells of one half-open request that should go. */
struct tg_request_row {
	struct tg_tuple tuple; /* from the client's side: saddr is the client */
	__u32 guard;
	__u32 age_ms;
	__u32 bound_ifindex; /* without it sock_diag finds none that is bound */
	__u32 padding;
	__u64 socket_cookie; /* of the request, as sock_diag wants it */
};

#endif
