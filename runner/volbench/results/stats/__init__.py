"""Pure statistics: tests, intervals, grids of series, histograms."""
