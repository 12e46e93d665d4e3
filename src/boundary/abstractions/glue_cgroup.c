// SPDX-License-Identifier: GPL-2.0
/*
 * What the abstractions need of cgroups and only C has.
 */

#include <linux/cgroup.h>
#include <linux/err.h>
#include <linux/errno.h>
#include <linux/kernfs.h>
#include <linux/limits.h>
#include <linux/minmax.h>
#include <linux/string.h>

#include "glue.h"

/*
 * Returns a reference to the node of a cgroup, and sets its level, or NULL.
 *
 * Not cgroup_get_from_path(): a node is linked, and points to its cgroup,
 * before cgroup_create() has set the cgroup's kn and level, and if that fails,
 * the cgroup is freed at once. Only nodes are looked at here: kernfs sets the
 * id and the name of a node before it links the node. The kernel's own walk
 * would also take an open file for a folder.
 */
static struct kernfs_node *find_node(const char *path, size_t size, int *level)
{
	/*
	 * The root of the caller's cgroup namespace: a task was in it, so that
	 * it is complete, and the namespace keeps it.
	 */
	struct cgroup *root = cgroup_get_from_path("/");
	struct kernfs_node *node;

	if (IS_ERR(root))
		return NULL;
	node = root->kn;
	kernfs_get(node);
	*level = root->level;
	cgroup_put(root);
	while (node && size) {
		char name[NAME_MAX + 1];
		struct kernfs_node *child = NULL;
		const char *slash = memchr(path, '/', size);
		size_t length = slash ? slash - path : size;
		size_t step = min(length + 1, size);

		if (length) {
			if (length < sizeof(name)) {
				memcpy(name, path, length);
				name[length] = 0;
				child = kernfs_find_and_get(node, name);
			}
			kernfs_put(node);
			/* All folders are cgroups. */
			if (child && kernfs_type(child) != KERNFS_DIR) {
				kernfs_put(child);
				child = NULL;
			}
			node = child;
			++*level;
		}
		path += step;
		size -= step;
	}
	return node;
}

/* A path that is too long is cut off, without an error. */
static int whole_path(struct kernfs_node *node, char *path, size_t size)
{
	int length = kernfs_path(node, path, size);

	return length < 0 || (size_t)length + 1 >= size ? -E2BIG : length;
}

int schedhist_find_cgroup(const char *path, size_t size, u64 *id, int *level,
			  char *full, size_t full_size)
{
	struct kernfs_node *node = find_node(path, size, level);
	int length = 0;

	if (!node)
		return -ENOENT;
	*id = node->id;
	if (full_size)
		length = whole_path(node, full, full_size);
	kernfs_put(node);
	return length;
}

/*
 * The cgroup of a task, and those above, are complete: cgroup_mkdir() activates
 * the node last, and nothing enters a cgroup before. css_set and cgroups are
 * freed after an RCU grace period, a cgroup after those below it, and with its
 * node. A task has a css_set from cgroup_fork(), before a walk can find it, to
 * __put_task_struct(): init_css_set until cgroup_post_fork(), which is before
 * task_newtask.
 */
struct cgroup *schedhist_task_cgroup(struct task_struct *task, u64 base,
				     int base_level, int max_level)
{
	struct cgroup *cgroup = task_dfl_cgroup(task);
	struct cgroup *above = cgroup_ancestor(cgroup, base_level);

	if (!above || cgroup_id(above) != base)
		return NULL;
	if (cgroup->level <= max_level)
		return cgroup;
	return cgroup_ancestor(cgroup, max_level);
}

u64 schedhist_cgroup_id(const struct cgroup *cgroup)
{
	return cgroup_id(cgroup);
}

int schedhist_cgroup_level(const struct cgroup *cgroup)
{
	return cgroup->level;
}

int schedhist_cgroup_path(struct cgroup *cgroup, char *path, size_t size)
{
	return whole_path(cgroup->kn, path, size);
}

/* This finds only cgroups whose node is active: see cgroup_mkdir(). */
bool schedhist_cgroup_exists(u64 id)
{
	struct cgroup *cgroup = cgroup_get_from_id(id);

	if (IS_ERR(cgroup))
		return false;
	cgroup_put(cgroup);
	return true;
}

bool schedhist_is_default_cgroup(const struct cgroup *cgroup)
{
	return cgroup->root == &cgrp_dfl_root;
}

u64 schedhist_root_cgroup(void)
{
	return cgroup_id(&cgrp_dfl_root.cgrp);
}
