// SPDX-License-Identifier: GPL-2.0
/*
 * A QEMU plugin that aborts QEMU as a failed assertion does, as soon as the guest's kernel runs.
 *
 * arguments: done=FILE  what it creates then; if the file is there, it does nothing
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "../bench/path-trace/qemu.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT int qemu_plugin_version = API_VERSION;

static const uint64_t KERNEL = 0xffffffff80000000;
static const char *done;

/* Called when the plugin is off: from now on QEMU runs without it. */
static void leave(uint64_t id)
{
}

static void translate(uint64_t id, struct qemu_plugin_tb *block)
{
	if (qemu_plugin_tb_vaddr(block) < KERNEL)
		return;
	if (open(done, O_CREAT | O_EXCL, 0600) >= 0)
		abort();
	qemu_plugin_reset(id, leave);
}

EXPORT int qemu_plugin_install(uint64_t id, const void *info, int argc, char **argv)
{
	if (argc != 1 || strncmp(argv[0], "done=", 5))
		return 1;
	done = strdup(argv[0] + 5);
	qemu_plugin_register_vcpu_tb_trans_cb(id, translate);
	return 0;
}
