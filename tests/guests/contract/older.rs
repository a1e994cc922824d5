//! Echo by contract 0.1 alone: a component that was built before 0.2.

hostile_guests::export_older!(echo::Echo);
