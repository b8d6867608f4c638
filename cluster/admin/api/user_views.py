"""Users and their limits over HTTP. Passwords come in, and only hashes go out."""

from __future__ import annotations

from functools import partial
from typing import Any

from cluster.admin.api.audience import Audience
from cluster.admin.api.call import Call
from cluster.admin.api.decision_timeout import decided
from cluster.admin.api.errors import bad_request
from cluster.admin.api.fields import Fields
from cluster.admin.api.names import found
from cluster.admin.api.permission_views import permission_rows, topic_permission_rows
from cluster.admin.api.responses import CREATED, DONE, Rows, Status
from cluster.admin.api.routing import Endpoints
from cluster.admin.api.services import Services
from cluster.admin.api.vhost_views import tags_in
from cluster.catalog.access.records import User
from cluster.config.passwords import exported_hash, imported_hash
from node.refusal import NotFoundError

endpoints = Endpoints()


def user_definition(user: User) -> dict[str, Any]:
    """As in RabbitMQ's definitions."""
    algorithm, password_hash = exported_hash(user.password_hash)
    return {
        "name": user.name,
        "password_hash": password_hash,
        "hashing_algorithm": algorithm,
        "tags": list(user.tags),
        "limits": user.limits,
    }


@endpoints.on("GET", "/users", Audience.ADMINISTRATOR)
async def list_users(services: Services, call: Call) -> Rows:
    """All users."""
    return Rows([user_definition(user) for user in services.access.state.users.values()], ("name",))


@endpoints.on("GET", "/users/without-permissions", Audience.ADMINISTRATOR)
async def list_users_without_permissions(services: Services, call: Call) -> Rows:
    """Users who may enter no virtual host."""
    entering = {user for _, user in services.access.state.permissions}
    users = services.access.state.users.values()
    return Rows([user_definition(user) for user in users if user.name not in entering], ("name",))


@endpoints.on("GET", "/users/{name}", Audience.ADMINISTRATOR)
async def show_named_user(services: Services, call: Call) -> dict[str, Any]:
    """One user."""
    return user_definition(user_in(services, call))


@endpoints.on("PUT", "/users/{name}", Audience.ADMINISTRATOR)
async def put_user(services: Services, call: Call) -> Status:
    """Add a user, or replace one's password and tags."""
    return CREATED if await set_user(services, call.path["name"], call.fields()) else DONE


@endpoints.on("DELETE", "/users/{name}", Audience.ADMINISTRATOR)
async def delete_user(services: Services, call: Call) -> Status:
    """Delete a user with all permissions; the user's connections are closed."""
    await decided(partial(services.access.delete_user, user_in(services, call).name))
    return DONE


@endpoints.on("POST", "/users/bulk-delete", Audience.ADMINISTRATOR)
async def delete_users(services: Services, call: Call) -> Status:
    """Delete the users named in the list `users`."""
    names = call.fields().values.get("users")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise bad_request("users_not_a_list_of_strings")
    for name in names:
        try:
            await decided(partial(services.access.delete_user, name))
        except NotFoundError:
            continue
    return DONE


@endpoints.on("GET", "/users/{name}/permissions", Audience.ADMINISTRATOR)
async def list_permissions_of_user(services: Services, call: Call) -> Rows:
    """The permissions of a user, by virtual host."""
    return Rows(permission_rows(services, user=user_in(services, call).name), ("vhost", "user"))


@endpoints.on("GET", "/users/{name}/topic-permissions", Audience.ADMINISTRATOR)
async def list_topic_permissions_of_user(services: Services, call: Call) -> Rows:
    """Topic permissions of a user."""
    return Rows(topic_permission_rows(services, user=user_in(services, call).name), ("vhost", "exchange"))


def user_in(services: Services, call: Call) -> User:
    """The user in the path. Raises ApiError."""
    user: User = found(services.access.state.users.get(call.path["name"]))
    return user


async def set_user(services: Services, name: str, fields: Fields) -> bool:
    """Add or replace a user; returns whether the user is new. Raises ApiError and Refusal."""
    if "tags" not in fields.values:
        raise bad_request("tags_not_present")
    if "password" in fields.values and "password_hash" in fields.values:
        raise bad_request("both_password_and_password_hash_are_provided")
    password = fields.text("password") if "password" in fields.values else None
    try:
        kept = imported_hash(fields.text("hashing_algorithm"), fields.text("password_hash"))
    except ValueError as error:
        raise bad_request(f"the password hash {error}") from None
    put = partial(services.access.put_user, name, password=password, password_hash=kept, tags=tags_in(fields))
    return bool(await decided(lambda answer: put(answer=answer)))
