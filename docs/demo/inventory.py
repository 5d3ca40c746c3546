"""A small shop's stock, kept in memory."""

LOW_STOCK = 5


class Inventory:
    """Items by name, with their price and how many are left."""

    def __init__(self):
        self.items = {}
        self.log = []

    def add(self, name, price, count=1):
        """Put items on the shelf; the price of a known item is updated."""
        if count < 1:
            raise ValueError(f"count must be positive, not {count}")
        item = self.items.setdefault(name, {"price": price, "count": 0})
        item["price"] = price
        item["count"] += count
        self.log.append(("add", name, count))

    def sell(self, name, count=1):
        """Take items off the shelf and return what the customer pays."""
        item = self.items[name]
        if item["count"] < count:
            raise ValueError(f"only {item['count']} of {name} left")
        item["count"] -= count
        self.log.append(("sell", name, count))
        return item["price"] * count

    def total(self):
        """The value of everything on the shelf."""
        return sum(item["price"] * item["count"] for item in self.items.values())

    def low(self):
        """Names of items that should be ordered again."""
        return [name for name, item in self.items.items() if item["count"] < LOW_STOCK]
