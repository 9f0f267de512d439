# on: direct
# Types a command of two dozen shells, each in a substitution in the text of the one before.
# cause: a rule over an agent's command parses what is inside a substitution twice at each level
if false; then
  bash -c "$(bash -c "$(bash -c "$(bash -c "$(bash -c "$(bash -c "$(bash -c "$(bash -c "$(bash -c "$(bash -c "$(bash -c "$(bash -c "$(bash -c "$(bash -c "$(bash -c "$(bash -c "$(bash -c "$(bash -c "$(bash -c "$(bash -c "$(bash -c "$(bash -c "$(bash -c "$(bash -c "$(true)")")")")")")")")")")")")")")")")")")")")")")")"
fi
