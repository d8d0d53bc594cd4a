"""What auditors ask of a store: `questions` lists the questions, `question` says what one is, `answers` reads them."""
