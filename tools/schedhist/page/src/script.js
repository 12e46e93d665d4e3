// SPDX-License-Identifier: GPL-2.0
'use strict';
(() => {
	const data = JSON.parse(document.getElementById('data').textContent);
	const time = (ns) => {
		for (const [unit, size] of [['s', 1e9], ['ms', 1e6], ['us', 1e3]])
			if (ns >= size)
				return Number((ns / size).toPrecision(3)) + ' ' + unit;
		return ns + ' ns';
	};
	const rowBegin = (row) => 2 ** Math.floor(row / 2) * (row % 2 ? 1.5 : 1);
	for (const svg of document.querySelectorAll('svg.heat')) {
		const [recording, metric] = svg.dataset.key.split(':').map(Number);
		const heat = data[recording].metrics[metric], times = data[recording].times;
		const area = svg.dataset.area.split(' ').map(Number);
		const cursor = svg.querySelector('.cursor'), out = svg.parentNode.parentNode.querySelector('output');
		const width = area[2] / times.length, height = area[3] / heat.rows;
		let at = 0, kept = false;
		const say = (column, row) => {
			at = column;
			const cells = heat.cells[column];
			let all = 0, here = 0;
			for (let i = 0; i < cells.length; i += 2) {
				all += cells[i + 1];
				if (cells[i] === row)
					here = cells[i + 1];
			}
			const [begin, span] = times[column], [p50, p99, max, isBound] = heat.quantiles[column];
			const day = new Date(data[recording].clocks[column]).toISOString().slice(11, 19);
			let text = 'at ' + day + ', ' + time(begin * 1e6) + ' from the beginning, for ' + time(span * 1e6) + ': ' + all + ' samples';
			if (all)
				text += ', p50 ' + time(p50) + ', p99 ' + time(p99) + ', max ' + (isBound ? '<' : '') + time(max);
			if (row !== null)
				text += '; from ' + time(rowBegin(row)) + ' to ' + time(rowBegin(row + 1)) + ': ' + here;
			out.textContent = text + (kept ? ' (kept: click again to release)' : '');
			cursor.setAttribute('x', area[0] + column * width);
			cursor.setAttribute('width', Math.max(width, 2));
			cursor.style.visibility = 'visible';
		};
		const point = (event) => {
			const p = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
			const column = Math.floor((p.x - area[0]) / width);
			const row = heat.low + heat.rows - 1 - Math.floor((p.y - area[1]) / height);
			return column >= 0 && column < times.length && row >= heat.low && row < heat.low + heat.rows ?
				[column, row] : null;
		};
		svg.addEventListener('pointermove', (event) => {
			const found = kept ? null : point(event);
			if (found)
				say(...found);
		});
		svg.addEventListener('click', (event) => {
			if (event.target.closest('a'))
				return;
			kept = !kept;
			const found = point(event);
			if (found)
				say(...found);
		});
		svg.tabIndex = 0;
		svg.addEventListener('keydown', (event) => {
			const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
			if (!step)
				return;
			event.preventDefault();
			say(Math.min(Math.max(at + step, 0), times.length - 1), null);
		});
	}
	for (const svg of document.querySelectorAll('svg.flame')) {
		const out = svg.parentNode.parentNode.querySelector('output'), whole = svg.viewBox.baseVal.width;
		const usual = 'Click a frame to see it as wide as the page, and the lowest one to see all.';
		const frames = [...svg.querySelectorAll('g')].map((g) => {
			const rect = g.querySelector('rect'), title = g.querySelector('title').textContent;
			const label = g.querySelector('text') ?? g.appendChild(document.createElementNS(svg.namespaceURI, 'text'));
			label.setAttribute('y', rect.y.baseVal.value + 12);
			return { g, rect, label, title, name: title.slice(0, title.lastIndexOf(': ')),
				x: rect.x.baseVal.value, y: rect.y.baseVal.value, width: rect.width.baseVal.value };
		});
		const zoom = (to) => {
			for (const frame of frames) {
				const begin = Math.max((frame.x - to.x) * whole / to.width, 0);
				const end = Math.min((frame.x + frame.width - to.x) * whole / to.width, whole);
				const shown = end - begin > 0.1, room = Math.floor((end - begin - 6) / 6.65);
				frame.g.classList.toggle('off', !shown);
				if (!shown)
					continue;
				frame.rect.setAttribute('x', begin);
				frame.rect.setAttribute('width', end - begin);
				frame.label.setAttribute('x', begin + 3);
				frame.label.textContent = room < 3 ? '' : frame.name.length <= room ? frame.name :
					frame.name.slice(0, room - 2) + '..';
			}
		};
		const under = (event) => frames.find((frame) => frame.g.contains(event.target));
		out.textContent = usual;
		svg.addEventListener('pointermove', (event) => out.textContent = under(event)?.title ?? usual);
		svg.addEventListener('pointerleave', () => out.textContent = usual);
		svg.addEventListener('click', (event) => {
			const found = under(event);
			if (found)
				zoom(found);
		});
	}
	for (const table of document.querySelectorAll('table.sort')) {
		const body = table.tBodies[0];
		[...table.tHead.rows[0].cells].forEach((cell, place) => {
			const button = document.createElement('button');
			button.textContent = cell.textContent;
			cell.replaceChildren(button);
			let down = false;
			button.addEventListener('click', () => {
				down = !down;
				const key = (row) => row.cells[place].dataset.v ?? row.cells[place].textContent;
				const rows = [...body.rows].sort((a, b) => {
					const [x, y] = [key(a), key(b)];
					const order = isNaN(x) || isNaN(y) ? x.localeCompare(y) : x - y;
					return down ? -order : order;
				});
				body.append(...rows);
			});
		});
	}
})();
