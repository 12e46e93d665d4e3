// SPDX-License-Identifier: GPL-2.0
/*
 * A QEMU plugin that aborts QEMU as a failed assertion does, as soon as the guest's kernel runs.
 *
 * arguments: left=FILE  holds a digit: how many more times to abort
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../bench/path-trace/qemu.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT int qemu_plugin_version = API_VERSION;

static const uint64_t KERNEL = 0xffffffff80000000;
static const char *left;

/* Called when the plugin is off: from now on QEMU runs without it. */
static void leave(uint64_t id)
{
}

static void translate(uint64_t id, struct qemu_plugin_tb *block)
{
	FILE *file;
	int times;

	if (qemu_plugin_tb_vaddr(block) < KERNEL)
		return;
	file = fopen(left, "r+");
	if (!file) {
		perror(left);
		exit(1);
	}
	times = fgetc(file) - '0';
	if (times > 0) {
		rewind(file);
		fputc('0' + times - 1, file);
		fclose(file);
		abort();
	}
	fclose(file);
	qemu_plugin_reset(id, leave);
}

EXPORT int qemu_plugin_install(uint64_t id, const void *info, int argc, char **argv)
{
	if (argc != 1 || strncmp(argv[0], "left=", 5))
		return 1;
	left = strdup(argv[0] + 5);
	qemu_plugin_register_vcpu_tb_trans_cb(id, translate);
	return 0;
}
