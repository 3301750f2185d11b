"""What every layer may use: programs started and logged in one place, secrets kept out of logs."""
