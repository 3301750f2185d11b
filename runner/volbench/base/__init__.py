"""What every layer may use: safe files, and programs started and logged in one place with secrets left out."""
