/* Many threads on one handle of librados: each writes an object of its own, 4 KiB at a time, and waits.
 *
 *     threads CONF POOL THREADS SECONDS
 *
 * Prints a line of JSON: operations, operations a second, times of a call in microseconds, context switches
 * for each operation. */

#include <pthread.h>
#include <rados/librados.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#define BYTES 4096

static rados_ioctx_t pool;
static volatile int has_ended;

/* What one thread has measured. */
struct work {
	int number;
	int result;
	uint32_t *took_us;
	size_t count, room;
};

static double now_s(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec + now.tv_nsec / 1e9;
}

static int note(struct work *work, double took_s)
{
	if (work->count == work->room) {
		size_t room = work->room ? 2 * work->room : 1024;
		uint32_t *larger = realloc(work->took_us, room * sizeof *larger);
		if (!larger)
			return -1;
		work->took_us = larger;
		work->room = room;
	}
	work->took_us[work->count++] = (uint32_t)(took_s * 1e6);
	return 0;
}

static void *write_on(void *argument)
{
	struct work *work = argument;
	char name[32], data[BYTES];
	snprintf(name, sizeof name, "thread-%d", work->number);
	memset(data, work->number, sizeof data);
	while (!has_ended && !work->result) {
		double began = now_s();
		work->result = rados_write_full(pool, name, data, sizeof data);
		if (!work->result)
			work->result = note(work, now_s() - began);
	}
	return NULL;
}

static int compare(const void *one, const void *other)
{
	uint32_t a = *(const uint32_t *)one, b = *(const uint32_t *)other;
	return (a > b) - (a < b);
}

static long switches(void)
{
	struct rusage usage;
	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_nvcsw + usage.ru_nivcsw;
}

/* Joins what the threads have measured, and prints it. */
static int report(struct work *works, int threads, double took_s, long switched)
{
	size_t count = 0, at = 0;
	for (int n = 0; n < threads; n++)
		count += works[n].count;
	uint32_t *all = malloc((count + 1) * sizeof *all);
	if (!all || !count)
		return 1;
	for (int n = 0; n < threads; n++) {
		memcpy(all + at, works[n].took_us, works[n].count * sizeof *all);
		at += works[n].count;
	}
	qsort(all, count, sizeof *all, compare);
	printf("{\"ops\": %zu, \"ops_per_s\": %.1f, \"p50_us\": %u, \"p99_us\": %u, \"switches_per_op\": %.3f}\n",
	       count, count / took_s, all[count / 2], all[(size_t)(count * 0.99)], (double)switched / count);
	free(all);
	return 0;
}

static int run(int threads, double seconds)
{
	struct work *works = calloc(threads, sizeof *works);
	pthread_t *ids = calloc(threads, sizeof *ids);
	if (!works || !ids)
		return 1;
	double began = now_s();
	long before = switches();
	for (int n = 0; n < threads; n++) {
		works[n].number = n;
		if (pthread_create(&ids[n], NULL, write_on, &works[n]))
			return 1;
	}
	struct timespec pause = { (time_t)seconds, 0 };
	nanosleep(&pause, NULL);
	has_ended = 1;
	int failed = 0;
	for (int n = 0; n < threads; n++) {
		pthread_join(ids[n], NULL);
		failed |= works[n].result;
	}
	return failed ? 1 : report(works, threads, now_s() - began, switches() - before);
}

int main(int argc, char **argv)
{
	rados_t cluster;
	if (argc != 5)
		return 2;
	if (rados_create(&cluster, "admin") || rados_conf_read_file(cluster, argv[1]) || rados_connect(cluster) ||
	    rados_ioctx_create(cluster, argv[2], &pool)) {
		fprintf(stderr, "cannot connect\n");
		return 1;
	}
	int failed = run(atoi(argv[3]), atof(argv[4]));
	if (failed)
		fprintf(stderr, "an operation failed\n");
	rados_ioctx_destroy(pool);
	rados_shutdown(cluster);
	return failed;
}
