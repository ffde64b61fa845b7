"""Objects with keys that are drawn, and relationships between them."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship


class Base(DeclarativeBase):
    pass


class Customer(Base):
    __tablename__ = "customer"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(sa.String(30), unique=True)
    orders: Mapped[list[Order]] = relationship(
        back_populates="customer", order_by="Order.id", cascade="all, delete-orphan"
    )


class Order(Base):
    __tablename__ = "order"
    id: Mapped[int] = mapped_column(primary_key=True)
    amount: Mapped[int] = mapped_column(server_default="7")
    customer_id: Mapped[int] = mapped_column(sa.ForeignKey("customer.id"), index=True)
    customer: Mapped[Customer] = relationship(back_populates="orders")


def test_objects_are_stored_found_changed_and_deleted(engine):
    Base.metadata.create_all(engine)
    with Session(engine) as session:
        ann = Customer(name="Ann", orders=[Order(amount=1), Order(amount=2)])
        session.add_all([ann, Customer(name="Bob", orders=[Order()])])
        session.commit()
        assert [order.id for order in ann.orders] == [1, 2]
        assert session.scalar(sa.select(Order.amount).join(Customer).filter_by(name="Bob")) == 7
        ann.orders.pop(0)
        ann.name = "Anne"
        session.commit()
    with Session(engine) as session:
        anne = session.scalars(sa.select(Customer).filter_by(name="Anne").limit(1)).one()
        assert [(order.id, order.amount) for order in anne.orders] == [(2, 2)]
        session.delete(anne)
        session.commit()
        total = sa.select(sa.func.count(Order.id), sa.func.sum(Order.amount))
        assert session.execute(total).one() == (1, 7)


def test_many_objects_get_their_keys_in_one_statement(engine):
    Base.metadata.create_all(engine)
    sent = []
    sa.event.listen(engine, "before_cursor_execute", lambda *given: sent.append(given[2]))
    with Session(engine) as session:
        made = [Customer(name=f"customer {number}") for number in range(300)]
        session.add_all(made)
        session.commit()
        keys = [customer.id for customer in session.scalars(sa.select(Customer))]
        assert sorted(keys) == [customer.id for customer in made]
    assert len([statement for statement in sent if statement.startswith("INSERT")]) == 1
