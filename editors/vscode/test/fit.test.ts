import assert from 'node:assert/strict';
import { test } from 'node:test';
import { dtypeFor, isPlanned, itemOf, parseFits, planOf } from '../src/fit';

const TINY = { preset: 'tiny', model: 'Q/Tiny', small_lm: null, fetched: false, device: 'cpu' };
const ESTIMATED = { ...TINY, fits: false, download_bytes: 491_400_064, why: 'does not fit' };

test('a preset is shown with what it takes, and with a sign if that is too much', () => {
  const [fit] = parseFits(JSON.stringify({ presets: [ESTIMATED], recommended: 'tiny' })) ?? [];
  assert(fit);
  assert.deepEqual(itemOf(fit), {
    label: '$(warning) tiny $(star-full)',
    description: 'recommended; does not fit; 0.5 GB to fetch',
    detail: 'Q/Tiny, on cpu',
  });
});

test('a server that estimates nothing has presets all the same', () => {
  const listed = { preset: 'small', target: 'Q/Small', small_lm: 'Q/Tiny', fetched: true };
  const [fit] = parseFits(JSON.stringify({ presets: [listed] })) ?? [];
  assert(fit);
  assert.deepEqual(itemOf(fit), { label: 'small', description: 'fetched', detail: 'Q/Small with Q/Tiny' });
});

test('a preset that only fits in fewer bits brings its dtype along, and one that the user has set stays', () => {
  const fit = (with_dtype: string) => ({ ...TINY, isRecommended: false, with_dtype });
  assert.equal(dtypeFor(fit('int4'), 'auto'), 'int4');
  for (const now of ['float32', 'int8']) {
    assert.equal(dtypeFor(fit('int4'), now), undefined);
  }
  for (const stays of [fit('auto'), { ...TINY, isRecommended: false }, undefined]) {
    assert.equal(dtypeFor(stays, 'auto'), undefined);
  }
});

test('what is no report is told apart', () => {
  assert.equal(parseFits('Error: no such command'), undefined);
  assert.equal(parseFits('{}'), undefined);
});

test('a fetch that nobody agreed to has said what it would do', () => {
  const said = 'Q/Tiny: 491.4 MB from PyPI to /models\nstet: error: nobody is there to be asked; add --yes\n';
  assert(isPlanned(said));
  assert.equal(planOf(said), 'Q/Tiny: 491.4 MB from PyPI to /models');
  assert(!isPlanned('stet: error: no model x'));
});
