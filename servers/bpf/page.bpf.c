/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Answers requests for the one-packet page inside the kernel, as TUX did
 * (Pariag 3.1.3). What is not exactly such a request is the server's, and so is
 * all that follows it on that connection.
 *
 * Where a program makes a TCP socket's segment longer and sends it back, the
 * kernel takes the reply's length for what was read, and the connection stalls
 * (tcp_eat_skb()). So the request goes through a pair of Unix sockets, of which
 * nobody counts what was read, and becomes the reply there.
 */
#include "vmlinux.h"

#include <bpf/bpf_helpers.h>

#define SOCKMAP 15
#define SOCKHASH 18
#define CONNECTIONS_MAX 65536
#define REPLY_MAX_BYTES 1448
#define REQUEST_MAX_BYTES 512
#define LINE_BYTES 16

enum {
	SK_DROP = 0,
	SK_PASS = 1,
};

/* Who answers on a connection; while nobody is named, it is not settled. */
enum {
	BY_KERNEL = 1,
	BY_SERVER = 2,
};

enum {
	REPLIES = 0,
	COUNTS = 1,
};

struct answerer {
	__u64 who;
	__u64 last_ns; /* when the kernel last answered, on the monotonic clock */
};

struct reply {
	__u32 bytes;
	__u8 data[REPLY_MAX_BYTES];
};

/* Connections that the kernel may answer, by socket cookie. */
struct {
	__uint(type, SOCKHASH);
	__uint(max_entries, CONNECTIONS_MAX);
	__type(key, __u64);
	__type(value, __u64);
} connections SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, CONNECTIONS_MAX);
	__type(key, __u64);
	__type(value, struct answerer);
} answerers SEC(".maps");

/* The pair's end that requests are sent into, and the one where they come out. */
struct {
	__uint(type, SOCKMAP);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} pair_in SEC(".maps");

struct {
	__uint(type, SOCKMAP);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} pair_out SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct reply);
} page SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, COUNTS);
	__type(key, __u32);
	__type(value, __u64);
} counts SEC(".maps");

/* Begins the name of a field that changes nothing: Host, User-Agent, Accept and its like. */
static __always_inline bool is_harmless(__u8 letter)
{
	letter |= 0x20;
	return letter == 'h' || letter == 'u' || letter == 'a';
}

/* Whether the segment is one whole request for the page, and nothing else. */
static __always_inline bool asks_for_page(struct __sk_buff *skb)
{
	static const char line[LINE_BYTES + 1] = "GET / HTTP/1.1\r\n";
	__u8 *data = (__u8 *)(long)skb->data, *end = (__u8 *)(long)skb->data_end;
	__u32 i, length = skb->len;

	if (length < LINE_BYTES + 2 || length > REQUEST_MAX_BYTES)
		return false;
	if (data + LINE_BYTES > end)
		return false;
	for (i = 0; i < LINE_BYTES; i++)
		if (data[i] != line[i])
			return false;
	for (i = LINE_BYTES; i < REQUEST_MAX_BYTES; i++) {
		__u8 *at = data + i;

		if (at + 2 > end)
			return false;
		if (at[-1] != '\n')
			continue;
		if (at[0] == '\r')
			return at[1] == '\n' && i + 2 == length;
		if (!is_harmless(at[0]))
			return false;
	}
	return false;
}

/* At a connection: a request for the page takes its way with the cookie in front. */
SEC("sk_skb/stream_verdict")
int ask(struct __sk_buff *skb)
{
	struct answerer by_server = {.who = BY_SERVER};
	__u64 cookie = bpf_get_socket_cookie(skb);
	struct answerer *answerer = bpf_map_lookup_elem(&answerers, &cookie);

	if (answerer && answerer->who == BY_KERNEL && bpf_skb_pull_data(skb, skb->len) == 0 &&
	    asks_for_page(skb) && bpf_skb_store_bytes(skb, 0, &cookie, sizeof(cookie), 0) == 0) {
		answerer->last_ns = bpf_ktime_get_ns();
		return bpf_sk_redirect_map(skb, &pair_in, 0, 0);
	}
	bpf_map_update_elem(&answerers, &cookie, &by_server, BPF_ANY);
	return SK_PASS;
}

/* Where requests come out of the pair: each becomes the reply, and goes where it came from. */
SEC("sk_skb/stream_verdict")
int answer(struct __sk_buff *skb)
{
	__u32 zero = 0, replies = REPLIES, bytes;
	struct reply *reply = bpf_map_lookup_elem(&page, &zero);
	__u64 cookie, *count = bpf_map_lookup_elem(&counts, &replies);

	if (!reply || !count || bpf_skb_load_bytes(skb, 0, &cookie, sizeof(cookie)))
		return SK_DROP;
	bytes = reply->bytes;
	if (bytes == 0 || bytes > REPLY_MAX_BYTES)
		return SK_DROP;
	if (bpf_skb_change_tail(skb, bytes, 0) ||
	    bpf_skb_store_bytes(skb, 0, reply->data, bytes, 0))
		return SK_DROP;
	__sync_fetch_and_add(count, 1);
	return bpf_sk_redirect_hash(skb, &connections, &cookie, 0);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
