/* SPDX-License-Identifier: GPL-2.0 */
/* What bindgen reads: the C side of the abstractions and of the trace event. */

#include "glue.h"
#include "rust_probe_trace.h"
