"""What bad and unusual input gets: one promise a test, each for every calibrator."""
