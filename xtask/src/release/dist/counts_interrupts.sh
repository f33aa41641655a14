#!/bin/sh
# Stands for the program: says at SIGTERM how often it was interrupted.
count=0
trap 'count=$((count + 1)); echo interrupted' INT
trap 'echo "interrupts: $count"; exit 7' TERM
echo ready
while :; do sleep 0.05; done
