"""What several test files share: small releases, specs and trees. Files here hold no tests."""
