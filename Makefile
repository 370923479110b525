.PHONY: help
help:
	@echo see below
