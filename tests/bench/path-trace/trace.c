// SPDX-License-Identifier: GPL-2.0
/*
 * A plugin for QEMU: records each instruction from the call of a probe until it returns, and each
 * of its memory accesses, regardless of whose code it is.
 *
 * arguments: out=PREFIX   the records of a vCPU go to PREFIX.NUMBER
 *            probes=FILE  the addresses of the probes; nothing happens until FILE exists and code
 *                         of a module runs for the first time
 *            armed=FILE   created when all is ready
 *            limit=N      the number of calls to record, on each vCPU
 *
 * FILE has a line `KIND ADDRESS` for each probe, with the letter of its calls in the records.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "qemu.h"

#define EXPORT __attribute__((visibility("default")))

enum { VCPUS = 64, PROBES = 32 };

/* The start of x86's module area, with and without KASLR. */
static const uint64_t MODULES = 0xffffffffa0000000;

/*
 * A record. `kind` is that of the probe at a call, 'a' and on for the registers, 'I' for an
 * instruction, with its flow_of() and its length, 'r' and 'w' for its loads and stores, and '.' at
 * the return of the call.
 */
struct record {
	uint64_t address;
	uint64_t value;
	uint32_t size;
	uint32_t kind;
};

struct probe {
	uint64_t address;
	char kind;
};

/* The properties of an instruction, known when it is translated. */
struct instruction {
	uint64_t address;
	uint64_t next;
	char flow;
	char probe;
};

enum { RDI, RSI, RDX, RCX, R8, RSP, REGISTERS };
static const char *const names[REGISTERS] = { "rdi", "rsi", "rdx", "rcx", "r8", "rsp" };

/* Used only by its own thread. */
struct vcpu {
	FILE *out;
	struct qemu_plugin_register *registers[REGISTERS];
	struct array *bytes;
	/* The return address of the last call. */
	uint64_t after_call;
	/* The return address of the probe; 0 outside of probes. */
	uint64_t back;
	unsigned long calls;
};

static struct vcpu vcpus[VCPUS];
static struct probe probes[PROBES];
static unsigned int probe_count;
static const char *out, *probes_file, *armed_file;
static unsigned long limit = 1000;

static void put(struct vcpu *vcpu, char kind, uint64_t address, uint64_t value, uint32_t size)
{
	struct record record = { address, value, size, kind };

	fwrite(&record, sizeof(record), 1, vcpu->out);
}

static uint64_t read_register(struct vcpu *vcpu, int number)
{
	uint64_t value = 0;

	g_byte_array_set_size(vcpu->bytes, 0);
	if (qemu_plugin_read_register(vcpu->registers[number], vcpu->bytes) == sizeof(value))
		memcpy(&value, vcpu->bytes->data, sizeof(value));
	return value;
}

/* Begins a call of a probe: records its arguments and the stack pointer. */
static void begin(struct vcpu *vcpu, const struct instruction *at)
{
	vcpu->back = vcpu->after_call;
	vcpu->calls++;
	put(vcpu, at->probe, at->address, 0, 0);
	for (int i = 0; i < REGISTERS; i++)
		put(vcpu, 'a' + i, 0, read_register(vcpu, i), 0);
}

static void on_instruction(unsigned int number, void *data)
{
	const struct instruction *at = data;
	struct vcpu *vcpu = &vcpus[number];

	if (vcpu->back && at->address == vcpu->back) {
		put(vcpu, '.', 0, 0, 0);
		vcpu->back = 0;
	}
	if (!vcpu->back && at->probe && vcpu->calls < limit)
		begin(vcpu, at);
	if (vcpu->back)
		put(vcpu, 'I', at->address, at->flow, at->next - at->address);
	else if (at->flow == 'c')
		vcpu->after_call = at->next;
}

static void on_access(unsigned int number, uint32_t access, uint64_t address,
		      void *data)
{
	struct vcpu *vcpu = &vcpus[number];
	char kind = qemu_plugin_mem_is_store(access) ? 'w' : 'r';

	if (vcpu->back)
		put(vcpu, kind, address, qemu_plugin_mem_get_value(access).low,
		    1u << qemu_plugin_mem_size_shift(access));
}

/*
 * Returns how an instruction branches: 'b' for a conditional branch, 'j' for a jump, 'c' for a
 * call, 'r' for a return; 0: not at all.
 */
static char flow_of(const struct qemu_plugin_insn *instruction)
{
	unsigned char bytes[16] = { 0 };
	size_t length = qemu_plugin_insn_data(instruction, bytes, sizeof(bytes)), i = 0;

	/* Prefixes: segment, repetition, and operand size. */
	while (i + 1 < length && (bytes[i] == 0x2e || bytes[i] == 0x3e || bytes[i] == 0xf2 ||
				  bytes[i] == 0xf3 || (bytes[i] & 0xf0) == 0x40))
		i++;
	switch (bytes[i]) {
	case 0x70 ... 0x7f:
		return 'b';
	case 0x0f:
		return (bytes[i + 1] & 0xf0) == 0x80 ? 'b' : 0;
	case 0xe8:
		return 'c';
	case 0xe9:
	case 0xeb:
		return 'j';
	case 0xc2:
	case 0xc3:
		return 'r';
	case 0xff:
		switch (bytes[i + 1] >> 3 & 7) {
		case 2:
			return 'c';
		case 4:
			return 'j';
		}
	}
	return 0;
}

static char probe_at(uint64_t address)
{
	for (unsigned int i = 0; i < probe_count; i++)
		if (probes[i].address == address)
			return probes[i].kind;
	return 0;
}

static void on_translation(uint64_t id, struct qemu_plugin_tb *block)
{
	size_t count = qemu_plugin_tb_n_insns(block);

	/* Only the kernel's code. */
	if (!(qemu_plugin_tb_vaddr(block) >> 63))
		return;
	for (size_t i = 0; i < count; i++) {
		struct qemu_plugin_insn *instruction = qemu_plugin_tb_get_insn(block, i);
		/* Never freed: QEMU does not report when it drops a block. */
		struct instruction *at = malloc(sizeof(*at));

		if (!at)
			abort();
		at->address = qemu_plugin_insn_vaddr(instruction);
		at->next = at->address + qemu_plugin_insn_size(instruction);
		at->flow = flow_of(instruction);
		at->probe = probe_at(at->address);
		qemu_plugin_register_vcpu_insn_exec_cb(instruction, on_instruction,
						       at->probe ? READ_REGISTERS : NO_REGISTERS,
						       at);
		qemu_plugin_register_vcpu_mem_cb(instruction, on_access, NO_REGISTERS,
						 ALL_ACCESSES, NULL);
	}
}

/* All translations are dropped: new ones get the callbacks. */
static void arm(uint64_t id)
{
	FILE *file;

	qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
	file = fopen(armed_file, "w");
	if (!file || fclose(file))
		abort();
}

static bool read_probes(void)
{
	FILE *file = fopen(probes_file, "r");

	if (!file)
		return false;
	for (struct probe probe; fscanf(file, " %c %lx", &probe.kind, &probe.address) == 2; probe_count++) {
		if (probe_count == PROBES)
			abort();
		probes[probe_count] = probe;
	}
	fclose(file);
	return probe_count > 0;
}

static void await_probes(uint64_t id, struct qemu_plugin_tb *block)
{
	static bool done;

	if (qemu_plugin_tb_vaddr(block) < MODULES || __atomic_load_n(&done, __ATOMIC_ACQUIRE) ||
	    access(probes_file, R_OK))
		return;
	if (!__atomic_exchange_n(&done, true, __ATOMIC_ACQ_REL) && read_probes())
		qemu_plugin_reset(id, arm);
}

static void begin_vcpu(uint64_t id, unsigned int number)
{
	struct vcpu *vcpu = &vcpus[number];
	struct array *all = qemu_plugin_get_registers();
	const struct register_descriptor *descriptors = all->data;
	char name[4096];

	if (number >= VCPUS)
		abort();
	for (unsigned int i = 0; i < all->length; i++)
		for (int wanted = 0; wanted < REGISTERS; wanted++)
			if (!strcmp(descriptors[i].name, names[wanted]))
				vcpu->registers[wanted] = descriptors[i].handle;
	vcpu->bytes = g_byte_array_new();
	snprintf(name, sizeof(name), "%s.%u", out, number);
	vcpu->out = fopen(name, "w");
	if (!vcpu->out)
		abort();
}

static void end(uint64_t id, void *data)
{
	for (int i = 0; i < VCPUS; i++)
		if (vcpus[i].out)
			fclose(vcpus[i].out);
}

EXPORT int qemu_plugin_version = API_VERSION;

EXPORT int qemu_plugin_install(uint64_t id, const struct qemu_info *info, int argc, char **argv)
{
	for (int i = 0; i < argc; i++) {
		if (!strncmp(argv[i], "out=", 4))
			out = argv[i] + 4;
		else if (!strncmp(argv[i], "probes=", 7))
			probes_file = argv[i] + 7;
		else if (!strncmp(argv[i], "armed=", 6))
			armed_file = argv[i] + 6;
		else if (!strncmp(argv[i], "limit=", 6))
			limit = strtoul(argv[i] + 6, NULL, 0);
		else
			return 1;
	}
	if (!out || !probes_file || !armed_file)
		return 1;
	qemu_plugin_register_vcpu_init_cb(id, begin_vcpu);
	qemu_plugin_register_vcpu_tb_trans_cb(id, await_probes);
	qemu_plugin_register_atexit_cb(id, end, NULL);
	return 0;
}
