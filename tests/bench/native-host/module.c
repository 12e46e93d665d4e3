// SPDX-License-Identifier: GPL-2.0

#define _GNU_SOURCE
#include <elf.h>
#include <fnmatch.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "memory.h"
#include "module.h"

struct module {
	const char *path;
	char *file;
	Elf64_Shdr *sections;
	size_t count;
	Elf64_Sym *symbols;
	size_t symbol_count;
	const char *names;
};

static char *read_file(const char *path)
{
	FILE *file = fopen(path, "r");
	char *text = NULL;
	long size = -1;

	if (file && !fseek(file, 0, SEEK_END))
		size = ftell(file);
	if (size >= (long)sizeof(Elf64_Ehdr))
		text = malloc(size);
	if (!text || fseek(file, 0, SEEK_SET) || fread(text, 1, size, file) != (size_t)size)
		die("%s: cannot be read", path);
	fclose(file);
	return text;
}

/*
 * The number of the CPU, as the kernel keeps it for each CPU. Modules read it relative to %gs,
 * which is 0 in user space.
 */
static int cpu_number;

static void missing(void)
{
	die("a probe called a function of the kernel that is not there");
}

/* Where the kernel needs no return thunk, it is this. */
__asm__("return_thunk: ret; int3");
void return_thunk(void);

static uint64_t address_of(const struct module *module, const Elf64_Sym *symbol)
{
	const char *name = module->names + symbol->st_name;

	if (symbol->st_shndx == SHN_ABS)
		return symbol->st_value;
	if (symbol->st_shndx != SHN_UNDEF)
		return module->sections[symbol->st_shndx].sh_addr + symbol->st_value;
	if (!strcmp(name, "local_clock"))
		return (uint64_t)local_clock;
	if (!strcmp(name, "__x86_return_thunk"))
		return (uint64_t)return_thunk;
	if (!strcmp(name, "cpu_number"))
		return (uint64_t)&cpu_number;
	return (uint64_t)missing;
}

/*
 * Patches a jump or call as the kernel does when it loads a module: to a return if no thunk is
 * needed, to a no-op where nothing traces the function. Returns whether there was something to do.
 */
static bool patch(const char *target, unsigned char *at)
{
	if (!strcmp(target, "__x86_return_thunk") && at[0] == 0xe9)
		memcpy(at, "\xc3\xcc\xcc\xcc\xcc", 5);
	else if (!strcmp(target, "__fentry__") && at[0] == 0xe8)
		memcpy(at, "\x0f\x1f\x44\x00\x00", 5);
	else
		return false;
	return true;
}

static void relocate(const struct module *module, const Elf64_Rela *rela, uint64_t place)
{
	const Elf64_Sym *symbol = &module->symbols[ELF64_R_SYM(rela->r_info)];
	int64_t value = address_of(module, symbol) + rela->r_addend;
	unsigned char *at = (void *)place;
	int32_t half;

	switch (ELF64_R_TYPE(rela->r_info)) {
	case R_X86_64_NONE:
		return;
	case R_X86_64_64:
		memcpy(at, &value, sizeof(value));
		return;
	case R_X86_64_PC64:
		value -= place;
		memcpy(at, &value, sizeof(value));
		return;
	case R_X86_64_PC32:
	case R_X86_64_PLT32:
		if (patch(module->names + symbol->st_name, at - 1))
			return;
		value -= place;
		break;
	case R_X86_64_32:
	case R_X86_64_32S:
		break;
	default:
		die("%s: relocation %lu is not known", module->path, ELF64_R_TYPE(rela->r_info));
	}
	if (value < INT32_MIN || value > INT32_MAX)
		die("%s: a symbol is too far away", module->path);
	half = value;
	memcpy(at, &half, sizeof(half));
}

/* Copies the sections to where they are used, and finds the symbols. */
static void place_sections(struct module *module)
{
	for (size_t i = 0; i < module->count; i++) {
		Elf64_Shdr *section = &module->sections[i];
		size_t size = section->sh_size;
		void *memory;

		if (section->sh_type == SHT_SYMTAB) {
			module->symbols = (Elf64_Sym *)(module->file + section->sh_offset);
			module->symbol_count = size / sizeof(Elf64_Sym);
			module->names = module->file + module->sections[section->sh_link].sh_offset;
		}
		if (!(section->sh_flags & SHF_ALLOC))
			continue;
		if (section->sh_flags & SHF_EXECINSTR)
			memory = take_code(size, section->sh_addralign);
		else
			memory = take_data(size, section->sh_addralign);
		if (section->sh_type != SHT_NOBITS)
			memcpy(memory, module->file + section->sh_offset, size);
		section->sh_addr = (uint64_t)memory;
	}
	if (!module->symbols)
		die("%s: has no symbols", module->path);
}

static void relocate_sections(const struct module *module)
{
	for (size_t i = 0; i < module->count; i++) {
		const Elf64_Shdr *section = &module->sections[i];
		const Elf64_Rela *rela = (const Elf64_Rela *)(module->file + section->sh_offset);
		const Elf64_Shdr *target = &module->sections[section->sh_info];

		if (section->sh_type != SHT_RELA || !(target->sh_flags & SHF_ALLOC))
			continue;
		for (size_t j = 0; j < section->sh_size / sizeof(*rela); j++)
			relocate(module, &rela[j], target->sh_addr + rela[j].r_offset);
	}
}

struct module *load_module(const char *path)
{
	struct module *module = calloc(1, sizeof(*module));
	const Elf64_Ehdr *header;

	if (!module)
		die("out of memory");
	module->path = strdup(path);
	module->file = read_file(path);
	header = (const Elf64_Ehdr *)module->file;
	if (memcmp(header->e_ident, ELFMAG, SELFMAG) || header->e_machine != EM_X86_64 ||
	    header->e_type != ET_REL)
		die("%s: is no module for x86-64", path);
	module->sections = (Elf64_Shdr *)(module->file + header->e_shoff);
	module->count = header->e_shnum;
	place_sections(module);
	relocate_sections(module);
	return module;
}

void *find_symbol(const struct module *module, const char *pattern)
{
	const Elf64_Sym *found = NULL;

	for (size_t i = 0; i < module->symbol_count; i++) {
		const Elf64_Sym *symbol = &module->symbols[i];
		const char *name = module->names + symbol->st_name;
		int type = ELF64_ST_TYPE(symbol->st_info);

		if ((type != STT_FUNC && type != STT_OBJECT) || symbol->st_shndx == SHN_UNDEF ||
		    fnmatch(pattern, name, 0))
			continue;
		if (found)
			die("%s: several symbols are %s", module->path, pattern);
		found = symbol;
	}
	if (!found)
		die("%s: no symbol is %s", module->path, pattern);
	return (void *)address_of(module, found);
}
