/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The part of QEMU's plugin interface, version 4, that trace.c uses: QEMU checks the version when
 * it loads a plugin. QEMU's docs/devel/tcg-plugins.rst documents it; Debian packages no header for
 * it.
 */
#ifndef SCHEDHIST_PATH_QEMU_H
#define SCHEDHIST_PATH_QEMU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { API_VERSION = 4 };

enum registers { NO_REGISTERS, READ_REGISTERS };
enum accesses { LOADS = 1, STORES, ALL_ACCESSES };

struct qemu_plugin_tb;
struct qemu_plugin_insn;
struct qemu_plugin_register;
struct qemu_info;

/* As in GLib. */
struct array {
	void *data;
	unsigned int length;
};

struct register_descriptor {
	struct qemu_plugin_register *handle;
	const char *name;
	const char *feature;
};

struct access_value {
	int size;
	uint64_t low;
	uint64_t high;
};

typedef void (*plugin_call)(uint64_t id);
typedef void (*vcpu_call)(uint64_t id, unsigned int vcpu);
typedef void (*translation_call)(uint64_t id, struct qemu_plugin_tb *block);
typedef void (*instruction_call)(unsigned int vcpu, void *data);
typedef void (*access_call)(unsigned int vcpu, uint32_t access, uint64_t address, void *data);
typedef void (*exit_call)(uint64_t id, void *data);

void qemu_plugin_reset(uint64_t id, plugin_call call);
void qemu_plugin_register_vcpu_init_cb(uint64_t id, vcpu_call call);
void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t id, translation_call call);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *instruction,
					    instruction_call call, enum registers registers,
					    void *data);
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *instruction, access_call call,
				      enum registers registers, enum accesses accesses, void *data);
void qemu_plugin_register_atexit_cb(uint64_t id, exit_call call, void *data);

size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *block);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *block);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *block,
						 size_t index);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *instruction);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *instruction);
size_t qemu_plugin_insn_data(const struct qemu_plugin_insn *instruction, void *bytes,
			     size_t length);

bool qemu_plugin_mem_is_store(uint32_t access);
unsigned int qemu_plugin_mem_size_shift(uint32_t access);
struct access_value qemu_plugin_mem_get_value(uint32_t access);

struct array *qemu_plugin_get_registers(void);
int qemu_plugin_read_register(struct qemu_plugin_register *handle, struct array *bytes);

/* From GLib, which QEMU is linked with. */
struct array *g_byte_array_new(void);
struct array *g_byte_array_set_size(struct array *bytes, unsigned int length);

#endif
