// SPDX-License-Identifier: GPL-2.0
/*
 * What must be C: static inlines, the check of our probes' prototypes, and the
 * module's version, which the module! macro has no word for.
 */

#include <linux/module.h>
#include <linux/tracepoint.h>
#include <trace/events/sched.h>

#include "schedhist_bindings.h"

void schedhist_tracepoint_synchronize_unregister(void)
{
	tracepoint_synchronize_unregister();
}

/* Never called: it does not compile when a tracepoint's prototype changes. */
static void __maybe_unused check_prototypes(void)
{
	check_trace_callback_type_sched_switch((schedhist_sched_switch_probe)NULL);
}

MODULE_VERSION(SCHEDHIST_VERSION);
