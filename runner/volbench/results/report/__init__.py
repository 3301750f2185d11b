"""Reports: a run's directory becomes report.json, and that becomes HTML, Markdown, JUnit or CSV."""
