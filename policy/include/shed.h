/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Persistent dropping (Jamjoom and Shin, SIGCOMM 2003, sections 3.4 and 4.4):
 * some requests are dropped at every attempt, so that all others need one.
 *
 *   RBD   every SYN with the same probability: what the others are held against
 *   SLPD  a keyed hash of client (H1) or connection (H2) below p*: no state
 *   SBPD  a table of 8-bit time stamps of first drops: whose stamp stands is a
 *         retransmission and dropped; who is new is dropped with probability p*
 *
 * Where the paper leaves a choice, or today's clients need another one:
 * - The hash is SipHash-1-3 with a secret key (4.4): nobody can aim at it. K(t) is
 *   the number of the turn, which is hashed with the rest; the turn is the wall
 *   clock's, so hosts that share key and clock decide alike.
 * - A new turn would let through at once most of what was being dropped. So what
 *   SLPD drops in a turn's last 75 s is stamped in the table too, and in the next
 *   turn's first 75 s the drops of the turn before go on for those stamped.
 * - SBPD's chance is a keyed hash of the connection and its initial sequence
 *   number. A retransmission carries the same number and so has the same chance
 *   at every host that shares the key, with or without a stamp; the next
 *   connection has a fresh one.
 * - "The real drop probability" (3.4.2) is what a new request would meet. Arrivals
 *   and drops alone do not tell it: a persistent client is dropped n + 1 times.
 *   SBPD's is measured by a probe, see tg_shed_probe.
 */
#ifndef TG_SHED_H
#define TG_SHED_H

#include "bucket.h"
#include "police.h"
#include "shed_auto.h"
#include "shed_table.h"
#include "shed_target.h"
#include "siphash.h"
#include "tuple.h"
#include "verdict.h"

/* A turn, K(t): 2^38 ns, 274.9 s ("on the order of several minutes", 3.4.1). */
#define TG_SHED_TURN_SHIFT 38
#define TG_SHED_TURN_NS (1ull << TG_SHED_TURN_SHIFT)

/* May a SYN be shed? Not where police has the last word. The source is an enum tg_source. */
TG_INLINE int tg_shed_concerns(const struct tg_shed_rules *rules, __u32 source)
{
	return source == TG_SOURCE_ANY && rules->policy;
}

/* Is a decision counted? Who is let through to a listener is counted with what comes next. */
TG_INLINE int tg_shed_counts(struct tg_decision d, __u32 is_path)
{
	return d.verdict != TG_PASS || is_path;
}

/* A SYN and its moment. */
struct tg_shed_syn {
	__u64 now_ns;   /* monotonic: stamps */
	__u64 clock_ns; /* the wall clock, which hosts share: turns */
	__u32 isn;      /* the client's initial sequence number */
	__u32 random;   /* uniform over 32 bits, where tg_shed_wants_random says so */
	__u32 preferred;
	__u32 padding;
};

/* A decision under way: the caller looks the block up in between. */
struct tg_shed_work {
	struct tg_siphash absorbed;
	__u64 p_x32;         /* p* now */
	__u64 place;         /* where in the table, where wants_block */
	__u32 length_bytes;  /* of the message absorbed */
	__u32 policy;        /* in force now */
	__u32 chosen;        /* SLPD: below p* in this turn */
	__u32 chosen_before; /* below p* in the turn before, where that still matters */
	__u32 wants_block;
	__u32 ports; /* of the message, where H2 asks for them */
};

/* The policy in force, fallen back as far as it has. */
TG_INLINE __u32 tg_shed_policy_now(const struct tg_shed_rules *rules,
                                   const struct tg_shed_state *state)
{
	if (rules->policy != TG_SLPD && rules->policy != TG_SBPD)
		return rules->policy;
	if (state->fallback == TG_FALLBACK_UNIFORM)
		return TG_RBD;
	return state->fallback == TG_FALLBACK_STATELESS ? TG_SLPD : rules->policy;
}

/* Between the halves: whether the SYN's number is still to be drawn. */
TG_INLINE int tg_shed_wants_random(const struct tg_shed_work *w)
{
	return w->policy == TG_RBD;
}

/*
 * H1 or H2, as far as all questions about this SYN share it: the addresses. The ports
 * of H2 wait for the message's last word, which has room for them.
 */
TG_INLINE void tg_shed_absorb(struct tg_shed_work *w, const struct tg_key *key,
                              const struct tg_tuple *t, __u32 kind)
{
	struct tg_siphash *s = &w->absorbed;

	tg_siphash_init(s, key);
	if (t->is_ipv6) {
		tg_siphash13_word(s, t->saddr[0] | (__u64)t->saddr[1] << 32);
		tg_siphash13_word(s, t->saddr[2] | (__u64)t->saddr[3] << 32);
		tg_siphash13_word(s, t->daddr[0] | (__u64)t->daddr[1] << 32);
		tg_siphash13_word(s, t->daddr[2] | (__u64)t->daddr[3] << 32);
		w->length_bytes = 32 + 3;
	} else {
		tg_siphash13_word(s, t->saddr[0] | (__u64)t->daddr[0] << 32);
		w->length_bytes = 8 + 3;
	}
	w->ports = (t->sport | (__u32)t->dport << 16) * kind;
	w->length_bytes += 4 * kind; /* no ports is not ports of 0 */
}

/* What is asked of the hash, in the two bits of the length byte that no length needs. */
enum tg_shed_question {
	TG_ASK_TURN = 0 << 6,  /* with the turn's number: below p*? */
	TG_ASK_DRAW = 1 << 6,  /* with the initial sequence number: below p*? */
	TG_ASK_PLACE = 2 << 6, /* where in the table? */
};

/* The last word: what is asked, 24 bits of the number that goes with it, the ports. */
TG_INLINE __u64 tg_shed_hash(const struct tg_shed_work *w, __u32 question, __u32 number)
{
	struct tg_siphash s = w->absorbed;

	tg_siphash13_word(&s, (__u64)(question | w->length_bytes) << 56 |
	                              (__u64)(number & 0xffffff) << 32 | w->ports);
	return tg_siphash13_finish(&s);
}

TG_INLINE __u32 tg_shed_below(const struct tg_shed_work *w, __u32 question, __u32 number)
{
	return tg_less(tg_shed_hash(w, question, number) >> 32, w->p_x32);
}

/* SLPD's question, and whether the table must be asked or told too. One branch: see tg_less(). */
TG_INLINE void tg_shed_ask_hash(struct tg_shed_work *w, const struct tg_shed_syn *syn)
{
	__u32 turn = (__u32)(syn->clock_ns >> TG_SHED_TURN_SHIFT);
	__u64 into_ns = syn->clock_ns & (TG_SHED_TURN_NS - 1);
	__u32 is_early = tg_less(into_ns, TG_SHED_WINDOW_NS);
	__u32 is_late = 1 - tg_less(into_ns, TG_SHED_TURN_NS - TG_SHED_WINDOW_NS);

	w->chosen = tg_shed_below(w, TG_ASK_TURN, turn);
	if (is_early & ~w->chosen)
		w->chosen_before = tg_shed_below(w, TG_ASK_TURN, turn - 1);
	w->wants_block = (w->chosen & is_late) | w->chosen_before;
}

/*
 * Our initial sequence number in the SYN/ACK that refuses (TG_HOLLOW). It goes out, so it is made
 * as a cookie is; and binds no epoch, so that with one key for both it is not a cookie's.
 */
TG_INLINE __u32 tg_shed_answer(const struct tg_key *key, const struct tg_tuple *tuple, __u32 isn)
{
	return (__u32)tg_tuple_mac(key, tuple, isn, 0);
}

/*
 * SBPD's draw is of one connection, and so is its place: else whoever forges SYNs of another's
 * addresses and ports, until one is drawn, would have all that come from there dropped. SLPD's hash
 * is of whatever has them.
 */
TG_INLINE void tg_shed_find_place(struct tg_shed_work *w, const struct tg_shed_rules *rules,
                                  const struct tg_shed_syn *syn)
{
	w->place = tg_shed_hash(w, TG_ASK_PLACE, rules->policy == TG_SBPD ? syn->isn : 0);
}

/* First half. *w is all zero; where p* is controlled, tg_auto_begin() was before, and
 * tg_auto_end() comes after the second half. */
TG_INLINE void tg_shed_begin(struct tg_shed_work *w, const struct tg_shed_rules *rules,
                             const struct tg_shed_state *state, const struct tg_key *key,
                             const struct tg_tuple *tuple, const struct tg_shed_syn *syn)
{
	w->p_x32 = tg_shed_p(rules, state);
	w->policy = tg_shed_policy_now(rules, state);
	/* A policy that has fallen back to RBD goes on asking its hash: it may come back. */
	if (rules->policy != TG_SLPD && rules->policy != TG_SBPD)
		return;
	tg_shed_absorb(w, key, tuple, rules->key);
	if (w->policy != TG_SBPD)
		tg_shed_ask_hash(w, syn);
	if (rules->policy == TG_SBPD)
		w->wants_block = 1;
	if (w->policy == TG_RBD)
		w->wants_block = 0;
	if (w->wants_block)
		tg_shed_find_place(w, rules, syn);
}

/* The block to look up, where wants_block. */
TG_INLINE __u32 tg_shed_block_index(const struct tg_shed_work *w, const struct tg_shed_rules *rules)
{
	return rules->first_block + (__u32)((w->place >> 32) * rules->blocks >> 32);
}

TG_INLINE __u32 tg_shed_cell(const struct tg_shed_work *w)
{
	return (__u32)(w->place & 0xffff) * TG_SHED_CELLS >> 16;
}

/*
 * Another cell of the same block, whose line is in the cache already. Whether it
 * is taken has nothing to do with this SYN: of many, the share that is taken is
 * the probability that a new request is mistaken for a retransmission.
 */
TG_INLINE __u32 tg_shed_probe(const struct tg_shed_work *w)
{
	__u32 other = (__u32)(w->place >> 16 & 0xffff) * (TG_SHED_CELLS - 1) >> 16;

	return other + !tg_less(other, tg_shed_cell(w));
}

/* With which probability every SYN is dropped, where that is the policy in force. */
TG_INLINE __u64 tg_shed_uniform(const struct tg_shed_work *w, const struct tg_shed_rules *rules,
                                const struct tg_shed_state *state)
{
	if (rules->policy == TG_RBD)
		return w->p_x32;
	return rules->is_auto ? state->control.uniform_x32 : rules->uniform_x32;
}

/* What the policy in force says. stands: of this SYN's own stamp. */
TG_INLINE struct tg_decision tg_shed_choose(const struct tg_shed_work *w,
                                            const struct tg_shed_rules *rules,
                                            const struct tg_shed_state *state,
                                            const struct tg_shed_syn *syn, __u32 stands)
{
	switch (w->policy) {
	case TG_RBD:
		if (syn->random < tg_shed_uniform(w, rules, state))
			return tg_decide(TG_DROP, TG_SHED_UNIFORM);
		break;
	case TG_SLPD:
		if (w->chosen)
			return tg_decide(TG_DROP, TG_SHED_STATELESS);
		if (w->chosen_before && stands)
			return tg_decide(TG_DROP, TG_SHED_AGAIN);
		break;
	case TG_SBPD:
		/* Where nobody is to be dropped, nobody goes on being dropped either. */
		if (stands && w->p_x32)
			return tg_decide(TG_DROP, TG_SHED_AGAIN);
		if (tg_shed_below(w, TG_ASK_DRAW, syn->isn))
			return tg_decide(TG_DROP, TG_SHED_NEW);
		break;
	default: break;
	}
	return tg_decide(TG_PASS, TG_FORWARDED);
}

/*
 * Second half: decides, stamps and measures. block is NULL where none was wanted, or
 * none is to be had: SBPD then lets the SYN through. A verdict of TG_PASS leaves the
 * SYN to what comes next.
 */
TG_INLINE struct tg_decision tg_shed_decide(const struct tg_shed_work *w,
                                            const struct tg_shed_rules *rules,
                                            const struct tg_shed_syn *syn,
                                            struct tg_shed_block *block,
                                            struct tg_shed_state *state,
                                            struct tg_shed_monitor *monitor)
{
	__u32 tick = tg_shed_tick(syn->now_ns);
	struct tg_decision d;
	__u32 stands = 0;

	if (w->policy == TG_SBPD && !block)
		return tg_decide(TG_PASS, TG_FORWARDED);
	if (block) {
		tg_shed_sweep(block, tick);
		stands = tg_shed_stands(block->stamps[tg_shed_cell(w)], tick);
		if (rules->policy == TG_SBPD)
			monitor->taken += tg_shed_stands(block->stamps[tg_shed_probe(w)], tick);
	}
	d = tg_shed_choose(w, rules, state, syn, stands);
	monitor->chosen += w->chosen;
	if (d.verdict == TG_PASS) {
		monitor->preferred += !!syn->preferred;
		monitor->passed += !syn->preferred;
	} else if (syn->preferred && !state->preferred_judged) {
		monitor->spared++;
		d = tg_decide(TG_PASS, TG_SPARED);
	} else {
		/* The time of the first drop: a retransmission does not renew it. */
		if (block && !stands)
			block->stamps[tg_shed_cell(w)] = tg_shed_stamp(tick);
	}
	tg_shed_monitor_syn(rules, state, monitor, syn->now_ns);
	return d;
}

/* Whether a drop has another form: then tg_shed_refuse() says which. */
TG_INLINE int tg_shed_answers(const struct tg_shed_rules *rules, struct tg_decision d)
{
	return d.verdict == TG_DROP &&
	       (rules->refusal == TG_REFUSE_RESET || rules->refusal == TG_REFUSE_COOKIE);
}

TG_INLINE struct tg_decision tg_shed_refuse(const struct tg_shed_rules *rules, struct tg_decision d,
                                            struct tg_bucket *refusals, __u32 refusal_cost_ns,
                                            __u64 now_ns)
{
	if (refusal_cost_ns && !tg_bucket_take(refusals, refusal_cost_ns, now_ns))
		return tg_decide(TG_DROP, TG_REFUSAL_LIMIT);
	return tg_decide(rules->refusal == TG_REFUSE_RESET ? TG_RESET : TG_HOLLOW, d.reason);
}

/*
 * May who answers a hollow SYN/ACK have been shed by it? The number that it answers is the same in
 * auto's.
 */
TG_INLINE __u32 tg_shed_may_be_behind_hollow(const struct tg_shed_rules *rules)
{
	return rules->refusal == TG_REFUSE_COOKIE;
}

/* MPTCP: what adds a subflow begins no connection, and none is shed by it. */
TG_INLINE struct tg_decision tg_shed_joining(struct tg_decision d, int joins)
{
	return joins ? tg_decide(TG_PASS, 0) : d;
}

TG_INLINE int tg_shed_tells(struct tg_decision d)
{
	return d.verdict == TG_RESET || d.verdict == TG_HOLLOW;
}

/*
 * On a listener: the same where the SYN's addresses and ports are taken. An answer would end what
 * the kernel has its own answer to; silence leaves it as it is. What is left is TIME-WAIT: the ACK
 * of a hollow SYN/ACK would go to that, which acknowledges it, and its client would wait.
 */
TG_INLINE struct tg_decision tg_shed_beside(struct tg_decision d, int is_answered, int is_taken)
{
	if (!is_taken || !tg_shed_tells(d))
		return d;
	return is_answered ? tg_decide(TG_PASS, 0) : tg_decide(TG_RESET, d.reason);
}

/*
 * The second half and all that follows it, for a caller that has everything at hand: the simulator,
 * and the tests. Where packets pass, look-ups come in between, in the same order (tg_shed_here()
 * and tg_shed_judge() of datapath/bpf/shed_stage.h, tg_path_shed() of path.bpf.c).
 */
TG_INLINE struct tg_decision tg_shed_step(
	const struct tg_shed_work *w, const struct tg_shed_rules *rules,
	const struct tg_shed_syn *syn, const struct tg_auto_queue *queue,
	struct tg_shed_block *block, struct tg_shed_state *state, struct tg_shed_monitor *monitor,
	struct tg_bucket *refusals, __u32 refusal_cost_ns, int is_answered, int is_taken)
{
	struct tg_decision d = tg_shed_decide(w, rules, syn, block, state, monitor);

	if (tg_shed_answers(rules, d))
		d = tg_shed_refuse(rules, d, refusals, refusal_cost_ns, syn->now_ns);
	d = tg_shed_beside(d, is_answered, is_taken);
	if (rules->is_auto)
		tg_auto_end(&state->control, queue, d.verdict == TG_PASS);
	return d;
}

#endif
