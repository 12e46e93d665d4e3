// SPDX-License-Identifier: GPL-2.0
/*
 * Misuses the files of schedhist: see test_fuzz.py.
 *
 * usage: fuzz FOLDER INPUTS SECONDS SEED
 *
 * Ends after INPUTS or SECONDS, whichever comes first. Alternates between one thread, which knows
 * what each file must read after each input, and several threads at once, on files of their own and
 * on shared files. An input is one write() or the like to a control, or to a file that cannot be
 * written.
 *
 * Prints to stderr everything that is logged meanwhile, except lines of schedhist.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/klog.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "dice.h"
#include "fuzz_input.h"
#include "fuzz_oracle.h"

enum { FILES = 1024, THREADS = 4, SHARED = 8, ALONE = 1500, TOGETHER = 600 };

struct target {
	char *path;
	enum kind kind;
	/* The text that a control must read. */
	char shown[LONGEST_SHOWN];
};

/* A thread, and its own data. */
struct fuzzer {
	struct dice dice;
	char *input, *output;
	/* The byte after it faults. */
	char *edge;
	unsigned long long accepted, refused, others;
	pthread_t thread;
};

static struct target files[FILES];
static int n_files, controls[FILES], n_controls;
static int root_length;
static atomic_int shared[SHARED];
static struct timespec start;
static unsigned long long seed;

static void die(const char *format, const char *what)
{
	fprintf(stderr, format, what);
	fprintf(stderr, " (%s), seed %llu\n", strerror(errno), seed);
	exit(1);
}

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec - start.tv_sec + (now.tv_nsec - start.tv_nsec) / 1e9;
}

/* --- the files --- */

static int found(const char *path, const struct stat *status, int type, struct FTW *walk)
{
	struct target *file = &files[n_files];
	mode_t wanted;

	(void)walk;
	if (type != FTW_F)
		return 0;
	if (n_files == FILES)
		die("%s: too many files", path);
	file->path = strdup(path);
	file->kind = kind_of(path + root_length + 1);
	wanted = file->kind <= STREAM ? 0400 : file->kind == RESET ? 0200 : 0600;
	if ((status->st_mode & 07777) != wanted)
		die("%s: has a mode that it should not have", path);
	if (file->kind > STREAM)
		controls[n_controls++] = n_files;
	n_files++;
	return 0;
}

static void read_shown(const struct target *file, char shown[LONGEST_SHOWN])
{
	int fd = open(file->path, O_RDONLY);
	ssize_t length = fd < 0 ? -1 : pread(fd, shown, LONGEST_SHOWN - 1, 0);

	if (length < 0)
		die("%s: cannot be read", file->path);
	shown[length] = 0;
	close(fd);
}

static bool is_shown(const struct target *file)
{
	return file->kind > STREAM && file->kind != RESET && file->kind != GROUP_RULES;
}

/* Text read from a control can be written to it, and then it reads the same. */
static void learn(void)
{
	char again[LONGEST_SHOWN];

	for (int i = 0; i < n_controls; i++) {
		struct target *file = &files[controls[i]];

		if (!is_shown(file))
			continue;
		read_shown(file, file->shown);
		if (!is_taken(file->kind, file->shown, strlen(file->shown), again) ||
		    strcmp(file->shown, again))
			die("%s: reads what cannot be written", file->path);
	}
}

static void check(const struct target *file)
{
	char shown[LONGEST_SHOWN];

	if (!is_shown(file))
		return;
	read_shown(file, shown);
	if (strcmp(shown, file->shown)) {
		fprintf(stderr, "reads '%s', and not '%s'\n", shown, file->shown);
		die("%s: reads something else", file->path);
	}
}

static void check_all(void)
{
	for (int i = 0; i < n_controls; i++)
		check(&files[controls[i]]);
}

static struct target *pick(struct dice *dice)
{
	if (one_in(dice, 8))
		return &files[below(dice, n_files)];
	return &files[controls[below(dice, n_controls)]];
}

/* --- an input --- */

/* Reports what was written, as far as possible, and ends the program. */
static void wrong(const struct target *file, const char *what, const char *input, size_t length, ssize_t result)
{
	fprintf(stderr, "%s: %s: result %zd (%s), length %zu, seed %llu:", file->path, what, result,
		strerror(errno), length, seed);
	for (size_t i = 0; i < length && i < 300; i++)
		fprintf(stderr, " %02x", (unsigned char)input[i]);
	fprintf(stderr, "\n");
	exit(1);
}

/*
 * Writes one input to a file that no other thread has open, and checks the result. `position` is
 * the file's position. Returns whether the input was accepted, and then `shown` is the text that
 * the file reads.
 */
static bool write_one(struct fuzzer *me, const struct target *file, int fd, off_t position,
		      char shown[LONGEST_SHOWN])
{
	size_t length = make_input(&me->dice, file->kind, me->input);
	const char *input = me->input;
	int error = error_of(file->kind, input, length, shown), how = below(&me->dice, 16);
	bool is_good = !error && position == 0;
	ssize_t result;

	if (position != 0 || !error)
		error = EINVAL;
	if (how == 0 && length) {
		/* The end of the input cannot be read. */
		size_t there = below(&me->dice, length);

		if (there > LONGEST)
			there = LONGEST;
		memcpy(me->edge - there, input, there);
		result = write(fd, me->edge - there, length);
		is_good = false;
		error = EINVAL;
		/* Unless it is refused unread: without write(), or past the largest offset. */
		if ((there < LONGEST || file->kind == GROUP_BY || file->kind == GROUP_RULES) &&
		    file->kind > STREAM && position <= INT64_MAX - (off_t)length)
			error = EFAULT;
	} else if (how == 1) {
		/* These files do not support pwrite(). */
		result = pwrite(fd, input, length, one_in(&me->dice, 4) ? 0 : roll(&me->dice) >> 1);
		is_good = false;
		error = ESPIPE;
	} else if (how == 2 && length) {
		struct iovec part = { me->input, length };

		result = writev(fd, &part, 1);
	} else if (how == 3 && length > 1 && length <= LONGEST) {
		/* Each part is an input. */
		size_t first = 1 + below(&me->dice, length - 1);
		struct iovec parts[] = { { me->input, first }, { me->input + first, length - first } };
		char then[LONGEST_SHOWN];

		/* First, as it changes errno. */
		error = error_of(file->kind, input, first, shown);
		result = writev(fd, parts, 2);
		is_good = !error && position == 0;
		if (position != 0)
			error = EINVAL;
		if (is_good && is_taken(file->kind, input + first, length - first, then))
			strcpy(shown, then);
		else if (is_good)
			length = first;
	} else {
		result = write(fd, input, length);
	}
	/* group_memory_limit can be too small for the counters of as many groups. */
	if (is_good && result == -1 && errno == ENOMEM && file->kind == GROUP_BY)
		is_good = false, error = ENOMEM;
	if (is_good && result != (ssize_t)length)
		wrong(file, "was refused", input, length, result);
	if (!is_good && (result != -1 || errno != error))
		wrong(file, result == -1 ? "was refused in another way" : "was taken", input, length, result);
	if (is_good)
		me->accepted++;
	else
		me->refused++;
	return is_good;
}

static int open_for_writing(struct fuzzer *me, const struct target *file)
{
	static const int FLAGS[] = { 0, O_APPEND, O_NONBLOCK, O_TRUNC, O_SYNC, O_CLOEXEC, O_CREAT };
	bool is_readable = file->kind != RESET;
	int fd = open(file->path, (is_readable && one_in(&me->dice, 2) ? O_RDWR : O_WRONLY) | O_NONBLOCK |
		      FLAGS[below(&me->dice, sizeof(FLAGS) / sizeof(FLAGS[0]))], 0600);

	if (fd < 0)
		die("%s: cannot be opened", file->path);
	return fd;
}

/* --- other calls --- */

static size_t odd_size(struct dice *dice)
{
	return one_in(dice, 8) ? below(dice, INPUT_MOST) : below(dice, 600);
}

static off_t odd_offset(struct dice *dice)
{
	switch (below(dice, 8)) {
	case 0:
		return roll(dice);
	case 1:
		return INT64_MAX - below(dice, 3);
	case 2:
		return -(off_t)below(dice, 5000);
	default:
		return below(dice, 6000);
	}
}

/* Ignores a result that the C library wants to be checked. */
static void whatever(ssize_t result)
{
	(void)result;
}

/* Makes other calls. They may fail; ioctl(), mmap() and writing by splice() must fail. */
static void call_another(struct fuzzer *me, int fd)
{
	struct dice *dice = &me->dice;
	struct pollfd ask = { fd, POLLIN | POLLOUT | POLLPRI, 0 };
	struct iovec parts[3];
	struct stat status;
	int pipes[2], copy;
	void *map;

	me->others++;
	switch (below(dice, 16)) {
	case 0:
	case 1:
	case 2:
		whatever(read(fd, me->output, odd_size(dice)));
		break;
	case 3:
	case 4:
	case 5:
		whatever(pread(fd, me->output, odd_size(dice), odd_offset(dice)));
		break;
	case 6:
		for (int i = 0; i < 3; i++)
			parts[i] = (struct iovec){ me->output + i * 1000, below(dice, 1000) };
		whatever(readv(fd, parts, below(dice, 4)));
		break;
	case 7:
		/* Reads into a buffer that faults half way. */
		whatever(read(fd, me->edge - below(dice, 64), 1 + below(dice, 4096)));
		break;
	case 8:
	case 9:
		lseek(fd, odd_offset(dice), below(dice, 6));
		break;
	case 10:
		poll(&ask, 1, 0);
		break;
	case 11:
		if (!ioctl(fd, roll(dice) | 0x80000000, me->output))
			die("%s", "an ioctl() was taken");
		break;
	case 12:
		map = mmap(NULL, 4096, PROT_READ | one_in(dice, 2) * PROT_WRITE,
			   one_in(dice, 2) ? MAP_SHARED : MAP_PRIVATE, fd, 0);
		if (map != MAP_FAILED)
			die("%s", "a file was mapped");
		break;
	case 13:
		if (pipe2(pipes, O_NONBLOCK))
			die("%s", "pipe");
		if (splice(fd, NULL, pipes[1], NULL, 4096, SPLICE_F_NONBLOCK) > 0)
			me->others++;
		if (write(pipes[1], "1", 1) != 1 || splice(pipes[0], NULL, fd, NULL, 1, 0) > 0)
			die("%s", "splice() wrote to a file");
		if (sendfile(pipes[1], fd, NULL, 4096) > 0)
			me->others++;
		close(pipes[0]);
		close(pipes[1]);
		break;
	case 14:
		copy = dup(fd);
		lseek(copy, below(dice, 50), SEEK_SET);
		close(copy);
		break;
	default:
		fstat(fd, &status);
		/* Not all shared files can be written. */
		whatever(ftruncate(fd, below(dice, 1000)));
		fcntl(fd, F_SETFL, O_NONBLOCK | (one_in(dice, 2) ? O_APPEND : 0));
	}
}

/* --- alone --- */

static void read_file(const char *path, char *text, size_t size)
{
	int fd = open(path, O_RDONLY);
	ssize_t length, done = 0;

	while ((length = read(fd, text + done, size - 1 - done)) > 0)
		done += length;
	if (fd < 0 || length < 0)
		die("%s: cannot be read", path);
	text[done] = 0;
	close(fd);
}

static void fuzz_alone(struct fuzzer *me, const char *status, const char *enable)
{
	static char before[1 << 17], after[1 << 17];

	for (int n = 0; n < ALONE; n++) {
		struct target *file = pick(&me->dice);
		char shown[LONGEST_SHOWN], enabled[LONGEST_SHOWN];
		int fd = open_for_writing(me, file);
		bool is_still = false;

		/* While measuring is off, the status does not change. */
		if (!is_shown(file) && one_in(&me->dice, 16)) {
			read_file(enable, enabled, sizeof(enabled));
			is_still = enabled[0] == '0';
		}
		for (int times = 1 + below(&me->dice, 3); times; times--) {
			off_t position;
			bool is_good;

			if (one_in(&me->dice, 4))
				call_another(me, fd);
			if (is_still)
				read_file(status, before, sizeof(before));
			position = lseek(fd, 0, SEEK_CUR);
			is_good = write_one(me, file, fd, position, shown);
			if (is_good)
				strcpy(file->shown, shown);
			if (is_still && !is_good) {
				read_file(status, after, sizeof(after));
				if (strcmp(before, after))
					die("%s: refused, and changed the status", file->path);
			}
			check(file);
		}
		close(fd);
		if (n % 64 == 0)
			check_all();
	}
	check_all();
}

/* --- with others --- */

/* Moves a descriptor above all those of a thread's own files, so that closing it cannot hit one. */
static int to_share(int fd)
{
	int high = fcntl(fd, F_DUPFD, 100);

	if (high < 0)
		die("%s: cannot be opened", "a shared file");
	close(fd);
	return high;
}

static void *fuzz_together(void *argument)
{
	struct fuzzer *me = argument;

	for (int n = 0; n < TOGETHER; n++) {
		struct target *file = pick(&me->dice);
		char shown[LONGEST_SHOWN];
		int slot = below(&me->dice, SHARED), fd = shared[slot];

		if (one_in(&me->dice, 8)) {
			/* Replaces the file while others use it. */
			fd = to_share(open(file->path, O_NONBLOCK | (file->kind == RESET ? O_WRONLY : O_RDWR)));
			close(atomic_exchange(&shared[slot], fd));
		} else if (one_in(&me->dice, 2)) {
			call_another(me, fd);
		} else if (one_in(&me->dice, 2)) {
			/* It may be any file by now: text that no file accepts must be refused. */
			size_t length = make_input(&me->dice, file->kind, me->input);
			ssize_t result = write(fd, me->input, length);
			bool is_good = false;

			for (enum kind kind = 0; kind < KINDS; kind++)
				is_good |= is_taken(kind, me->input, length, shown);
			if (result >= 0 && (result != (ssize_t)length || !is_good))
				wrong(file, "was taken", me->input, length, result);
			if (result >= 0)
				me->accepted++;
			else
				me->refused++;
		} else {
			fd = open_for_writing(me, file);
			write_one(me, file, fd, 0, shown);
			close(fd);
		}
	}
	return NULL;
}

/* --- the kernel's log --- */

/* Reads the log often enough that nothing is lost; may show the lines that are not schedhist's. */
static void watch_log(bool is_shown)
{
	static char text[1 << 20];

	while (klogctl(9, NULL, 0) > 0) {
		int length = klogctl(2, text, sizeof(text) - 1);

		if (length < 0)
			die("%s", "klogctl");
		text[length] = 0;
		for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
			if (is_shown && !strstr(line, "] schedhist: "))
				fprintf(stderr, "the log: %s\n", line);
	}
}

static struct fuzzer new_fuzzer(int number)
{
	size_t size = INPUT_MOST + 4096;
	struct fuzzer me = { .dice = dice_of(seed, number) };
	char *edge;

	/* The last mutation may make an input longer. */
	me.input = malloc(2 * size);
	me.output = malloc(size);
	edge = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (!me.input || !me.output || edge == MAP_FAILED || mprotect(edge + 4096, 4096, PROT_NONE))
		die("%s", "memory");
	me.edge = edge + 4096;
	return me;
}

int main(int argc, char **argv)
{
	static char status[4096], enable[4096];
	static struct fuzzer alone, together[THREADS];
	unsigned long long inputs, accepted, refused, others;
	double limit;

	if (argc != 5)
		return 2;
	inputs = strtoull(argv[2], NULL, 0);
	limit = atof(argv[3]);
	seed = strtoull(argv[4], NULL, 0);
	clock_gettime(CLOCK_MONOTONIC, &start);
	root_length = strlen(argv[1]);
	snprintf(status, sizeof(status), "%s/status", argv[1]);
	snprintf(enable, sizeof(enable), "%s/enable", argv[1]);
	if (nftw(argv[1], found, 16, FTW_PHYS) || !n_controls)
		die("%s: no files", argv[1]);
	alone = new_fuzzer(0);
	for (int i = 0; i < THREADS; i++)
		together[i] = new_fuzzer(i + 1);
	for (int i = 0; i < SHARED; i++)
		shared[i] = to_share(open(status, O_RDONLY));
	watch_log(false);

	for (;;) {
		accepted = alone.accepted, refused = alone.refused, others = alone.others;
		for (int i = 0; i < THREADS; i++) {
			accepted += together[i].accepted;
			refused += together[i].refused;
			others += together[i].others;
		}
		if (accepted + refused >= inputs || seconds() >= limit)
			break;
		learn();
		fuzz_alone(&alone, status, enable);
		watch_log(true);
		for (int i = 0; i < THREADS; i++)
			if (pthread_create(&together[i].thread, NULL, fuzz_together, &together[i]))
				die("%s", "pthread_create");
		for (int i = 0; i < THREADS; i++)
			pthread_join(together[i].thread, NULL);
		watch_log(true);
	}
	printf("# %llu inputs, %llu accepted, %llu refused, seed %llu; %llu other calls, %d files, %.0f s\n",
	       accepted + refused, accepted, refused, seed, others, n_files, seconds());
	return 0;
}
