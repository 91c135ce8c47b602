#!/usr/bin/env bash
./main.exe -h
