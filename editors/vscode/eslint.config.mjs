import tseslint from 'typescript-eslint';

export default tseslint.config({ ignores: ['dist', 'eslint.config.mjs'] }, ...tseslint.configs.recommendedTypeChecked, {
  languageOptions: { parserOptions: { projectService: true } },
  rules: {
    // Node's own tests are not awaited.
    '@typescript-eslint/no-floating-promises': [
      'error',
      { allowForKnownSafeCalls: [{ from: 'package', name: ['test'], package: 'node:test' }] },
    ],
  },
});
