// SPDX-License-Identifier: GPL-2.0
/*
 * See unload_stress.h.
 *
 * The module may be absent at any time: then its files cannot be opened. An open file keeps the
 * module loaded, and works.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "unload_stress.h"

#define FOLDER "/sys/kernel/debug/schedhist/"
#define TRACING "/sys/kernel/tracing/"
#define EVENTS TRACING "events/schedhist/"
#define PICK(dice, array) ((array)[below(dice, sizeof(array) / sizeof((array)[0]))])

static const char *const READABLE[] = {
	"summary", "status", "openmetrics", "raw", "outliers", "hist/oncpu", "hist/runq", "hist/idle",
	"hist/wakeup", "per_cpu/cpu0/summary", "per_cpu/cpu1/hist/oncpu", "per_cpu/cpu1/openmetrics",
	"threshold_ns/runq", "enable", "metrics", "groups",
};

static const char *const MEASURED[] = {
	"oncpu", "runq", "runq_wakeup", "runq_preempt", "offcpu", "blocked_interruptible", "idle", "wakeup",
	"throttled",
};

/* Returns -1 if the file is not there at the moment. */
static int open_ours(const char *folder, const char *name, int flags)
{
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "%s%s", folder, name);
	fd = open(path, flags | O_CLOEXEC);
	/* Absent, being removed, removed while it was opened, or not yet ready. */
	if (fd < 0 && errno != ENOENT && errno != ENXIO && errno != EIO && errno != EAGAIN &&
	    errno != ENODEV && errno != EINTR)
		fail("%s cannot be opened", path);
	return fd;
}

/* Waits because there is nothing to use at the moment. */
static bool idle(struct dice *dice)
{
	nap(dice, 2);
	return false;
}

/* Reads to the end, or 100 times; reading must not fail. */
static void drain(const char *name, int fd, char *buffer, size_t size)
{
	ssize_t length = 1;

	for (int n = 100; n && length > 0; n--)
		length = read(fd, buffer, size);
	if (length < 0 && errno != EINTR)
		fail("%s cannot be read", name);
}

static bool use_read(struct dice *dice)
{
	static char buffer[5000];
	const char *name = PICK(dice, READABLE);
	int fd = open_ours(FOLDER, name, O_RDONLY);

	if (fd < 0)
		return idle(dice);
	drain(name, fd, buffer, one_in(dice, 3) ? 1 + below(dice, 100) : sizeof(buffer));
	close(fd);
	return true;
}

static bool use_raw(struct dice *dice)
{
	static char buffer[1 << 16];
	int fd = open_ours(FOLDER, "raw", O_RDONLY);

	if (fd < 0)
		return idle(dice);
	drain("raw", fd, buffer, sizeof(buffer));
	close(fd);
	return true;
}

static bool use_pread(struct dice *dice)
{
	static char buffer[5000];
	const char *name = PICK(dice, READABLE);
	int fd = open_ours(FOLDER, name, O_RDONLY);

	if (fd < 0)
		return idle(dice);
	for (int n = 1 + below(dice, 6); n; n--)
		if (pread(fd, buffer, below(dice, sizeof(buffer)), below(dice, 9000)) < 0 && errno != EINTR)
			fail("%s cannot be read in parts", name);
	close(fd);
	return true;
}

static bool use_hold(struct dice *dice)
{
	static const int FLAGS[] = { O_RDONLY, O_WRONLY, O_RDWR };
	bool is_any = false;
	int fds[3];

	for (int i = 0; i < 3; i++) {
		fds[i] = open_ours(FOLDER, PICK(dice, READABLE), PICK(dice, FLAGS));
		is_any |= fds[i] >= 0;
	}
	nap(dice, 30);
	for (int i = 0; i < 3; i++)
		close(fds[i]);
	return is_any;
}

static bool use_pipe(struct dice *dice)
{
	static char buffer[3000];
	bool is_patient = one_in(dice, 2);
	int fd = open_ours(FOLDER, "outlier_pipe", O_RDONLY | (is_patient ? 0 : O_NONBLOCK));
	struct pollfd ask = { fd, POLLIN, 0 };

	if (fd < 0)
		return idle(dice);
	if (!is_patient)
		poll(&ask, 1, below(dice, 30));
	/* Sleeps until there is an outlier, or none can come any more, or a signal arrives. */
	if (read(fd, buffer, 1 + below(dice, sizeof(buffer))) < 0 && errno != EINTR && errno != EAGAIN &&
	    errno != ENODATA)
		fail("outlier_pipe cannot be read");
	close(fd);
	return true;
}

static bool use_control(struct dice *dice)
{
	static const char *const CONTROLS[][2] = {
		{ "enable", "0" }, { "enable", "1" }, { "metrics", "all" }, { "metrics", "default" },
		{ "metrics", "none" }, { "metrics", "runq idle" }, { "reset", "1" }, { "reset", "1" },
		{ "on_outlier", "snapshot" }, { "on_outlier", "none" }, { "enable", "2" },
		{ "metrics", "bogus" },
	};
	const char *const *control = PICK(dice, CONTROLS);
	bool is_bad = !strcmp(control[1], "2") || !strcmp(control[1], "bogus");
	int fd = open_ours(FOLDER, control[0], O_WRONLY);

	if (fd < 0)
		return idle(dice);
	if ((write(fd, control[1], strlen(control[1])) < 0) != is_bad)
		fail("%s: %s: %s", control[0], control[1], is_bad ? "taken" : "refused");
	close(fd);
	nap(dice, 40);
	return true;
}

/* Reports all outliers that are possible. */
static bool use_outliers(struct dice *dice)
{
	const char *text;
	char name[64];
	int fd = open_ours(FOLDER, "outlier_rate", O_WRONLY);

	if (fd < 0)
		return idle(dice);
	if (write(fd, "none", 4) != 4)
		fail("outlier_rate");
	close(fd);
	snprintf(name, sizeof(name), "threshold_ns/%s", PICK(dice, MEASURED));
	fd = open_ours(FOLDER, name, O_WRONLY);
	if (fd < 0)
		return false;
	text = one_in(dice, 8) ? "none" : "1";
	if (write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		fail("%s", name);
	close(fd);
	nap(dice, 20);
	return true;
}

enum { PERF_EVENTS = 2 };

static bool use_perf(struct dice *dice)
{
	static const char *const NAMES[] = { "oncpu", "runq", "offcpu", "blocked", "idle", "outlier", "culprit" };
	struct perf_event_attr attributes = {
		.type = PERF_TYPE_TRACEPOINT, .size = sizeof(attributes), .sample_period = 1,
		.sample_type = PERF_SAMPLE_RAW | PERF_SAMPLE_TIME,
	};
	size_t size = 9 * sysconf(_SC_PAGESIZE);
	char name[64], text[32] = "";
	int events[PERF_EVENTS];
	void *rings[PERF_EVENTS];
	bool is_any = false;

	for (int i = 0; i < PERF_EVENTS; i++) {
		int fd;

		events[i] = -1;
		rings[i] = MAP_FAILED;
		snprintf(name, sizeof(name), "%s/id", PICK(dice, NAMES));
		fd = open_ours(EVENTS, name, O_RDONLY);
		if (fd < 0)
			continue;
		if (read(fd, text, sizeof(text) - 1) > 0) {
			attributes.config = atoi(text);
			/* CPU 1 may be offline, and the event may be gone. */
			events[i] = syscall(SYS_perf_event_open, &attributes, -1, i % 2, -1, PERF_FLAG_FD_CLOEXEC);
			if (events[i] >= 0)
				rings[i] = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, events[i], 0);
		}
		close(fd);
	}
	nap(dice, 30);
	for (int i = 0; i < PERF_EVENTS; i++) {
		is_any |= rings[i] != MAP_FAILED;
		if (rings[i] != MAP_FAILED)
			munmap(rings[i], size);
		if (events[i] >= 0)
			close(events[i]);
	}
	return is_any;
}

/* Writes to a file of tracefs. Returns whether the file was there to be written to. */
static bool tell(const char *path, const char *text, int flags)
{
	int fd = open_ours(TRACING, path, O_WRONLY | flags);
	ssize_t length;

	if (fd < 0)
		return false;
	do
		length = write(fd, text, strlen(text));
	while (length < 0 && errno == EINTR);
	close(fd);
	return length > 0;
}

/* An enabled event keeps the module loaded, so that it can be disabled. */
static void switch_off(const char *path, const char *text, int flags)
{
	while (!tell(path, text, flags))
		if (errno != EINTR)
			fail("%s: %s is refused", path, text);
}

static bool use_ftrace(struct dice *dice)
{
	static const char *const NAMES[] = { "runq", "offcpu", "blocked", "idle", "outlier", "culprit" };
	char path[64];

	snprintf(path, sizeof(path), "events/schedhist/%s/enable", PICK(dice, NAMES));
	if (!tell(path, "1", 0))
		return idle(dice);
	nap(dice, 20);
	switch_off(path, "0", 0);
	return true;
}

static bool use_set_event(struct dice *dice)
{
	if (!tell("set_event", "schedhist:oncpu", O_APPEND))
		return idle(dice);
	nap(dice, 20);
	switch_off("set_event", "!schedhist:oncpu", O_APPEND);
	return true;
}

static bool use_trigger(struct dice *dice)
{
	if (!tell("events/schedhist/wakeup/trigger", "hist:keys=pid", O_APPEND))
		return idle(dice);
	nap(dice, 20);
	switch_off("events/schedhist/wakeup/trigger", "!hist:keys=pid", O_APPEND);
	return true;
}

/* Reads what the kernel itself shows of the module. */
static bool use_look(struct dice *dice)
{
	static const char *const PATHS[] = {
		"/sys/module/schedhist/refcnt", "/sys/module/schedhist/parameters/metrics",
		"/sys/module/schedhist/initstate", "/proc/modules", TRACING "available_events",
		TRACING "set_event", TRACING "trace", EVENTS "runq/format", EVENTS "enable",
		EVENTS "outlier/filter",
	};
	static char buffer[5000];
	const char *path = PICK(dice, PATHS);
	int fd = open_ours("", path, O_RDONLY | O_NONBLOCK);

	/* These files do not keep the module loaded, and may end at any time. */
	for (int n = 100; fd >= 0 && n && read(fd, buffer, sizeof(buffer)) > 0; n--)
		;
	close(fd);
	nap(dice, 10);
	return fd >= 0 && strstr(path, "schedhist");
}

const struct use uses[USES] = {
	{ "read", use_read, false },
	{ "raw", use_raw, false },
	{ "pread", use_pread, false },
	{ "hold", use_hold, false },
	{ "outlier_pipe", use_pipe, false },
	{ "control", use_control, false },
	{ "outliers", use_outliers, false },
	{ "perf", use_perf, true },
	{ "ftrace", use_ftrace, true },
	{ "set_event", use_set_event, true },
	{ "trigger", use_trigger, true },
	{ "look", use_look, false },
};
