"""``make numerics``: whether edited code computes the very same numbers as the code that the ledger lists.

Small cells (`cases`) are trained by the last listed commit (`trees`) and by the code at hand, on one machine
(`worker`), and every recorded bit, what methods keep and the artifacts are compared (`comparison`). Code that computes
the same numbers is listed under the identity that it had (`listing`); see `fedgrid.grid.study.ledger`.
"""
